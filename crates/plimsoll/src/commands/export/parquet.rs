//! Tables in the Parquet format (version 1 pages), without compression. Texts are encoded by
//! dictionary, numbers plainly. All columns are optional.
//!
//! This module writes the format itself, because Plimsoll needs little of it: the `parquet` crate
//! takes as long to build as half of Plimsoll. See <https://github.com/apache/parquet-format>:
//! `README.md`, `Encodings.md` and `parquet.thrift`, which defines the field numbers used here.

use std::collections::HashMap;

/// Bytes at the beginning and at the end of a file.
const MAGIC: &[u8] = b"PAR1";
/// Maximum number of rows in a row group, which is built in memory.
pub const ROWS: usize = 500_000;

/// Values of the enum `Type`.
const DOUBLE: i64 = 5;
const BYTE_ARRAY: i64 = 6;
/// Values of the enum `Encoding`.
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const RLE_DICTIONARY: i64 = 8;
/// Values of the enum `PageType`.
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
/// Values of the enum `FieldRepetitionType`.
const OPTIONAL: i64 = 1;
/// Values of the enum `ConvertedType`.
const UTF8: i64 = 0;

/// Values of a column in a row group.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnValues {
    /// Texts; an empty text is null.
    Texts(Vec<String>),
    Numbers(Vec<Option<f64>>),
}

/// A file that is being written. Each method returns the next bytes of the file.
#[derive(Debug)]
pub struct ParquetFile {
    /// Name of each column, and whether it has texts.
    columns: Vec<(String, bool)>,
    /// Encoded `RowGroup` structure of each row group.
    groups: Vec<Vec<u8>>,
    rows: usize,
    written: usize,
}

impl ParquetFile {
    /// Begins a file with these columns, each with its name and whether it has texts.
    pub fn new(columns: Vec<(String, bool)>) -> Self {
        Self { columns, groups: Vec::new(), rows: 0, written: 0 }
    }

    /// Writes a row group, given as the values of each column.
    pub fn rows(&mut self, values: &[ColumnValues]) -> Vec<u8> {
        let mut bytes = if self.written == 0 { MAGIC.to_vec() } else { Vec::new() };
        let rows = values.first().map_or(0, ColumnValues::len);
        let mut chunks = Vec::new();
        let before = bytes.len();
        for ((name, _), values) in self.columns.iter().zip(values) {
            chunks.push(values.chunk(name, self.written, &mut bytes));
        }
        let mut group = ThriftStruct::default();
        group.structs(1, &chunks).int(2, to_int(bytes.len() - before)).int(3, to_int(rows));
        self.groups.push(group.end());
        self.rows += rows;
        self.written += bytes.len();
        bytes
    }

    /// Returns the footer, with which the file ends.
    pub fn end(self) -> Vec<u8> {
        let mut bytes = if self.written == 0 { MAGIC.to_vec() } else { Vec::new() };
        let mut root = ThriftStruct::default();
        root.text(4, "plimsoll").int32(5, to_int(self.columns.len()));
        let mut schema = vec![root.end()];
        schema.extend(self.columns.iter().map(|(name, is_text)| {
            let mut element = ThriftStruct::default();
            element.int32(1, if *is_text { BYTE_ARRAY } else { DOUBLE }).int32(3, OPTIONAL).text(4, name);
            if *is_text {
                element.int32(6, UTF8);
            }
            element.end()
        }));
        let mut metadata = ThriftStruct::default();
        metadata.int32(1, 1).structs(2, &schema).int(3, to_int(self.rows)).structs(4, &self.groups);
        metadata.text(6, concat!("plimsoll ", env!("CARGO_PKG_VERSION")));
        let metadata = metadata.end();
        bytes.extend_from_slice(&metadata);
        bytes.extend_from_slice(&length(&metadata));
        bytes.extend_from_slice(MAGIC);
        bytes
    }
}

impl ColumnValues {
    fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// Appends the pages of a column to `bytes`, and returns the column's `ColumnChunk`. `written`
    /// is the position of `bytes` in the file.
    fn chunk(&self, name: &str, written: usize, bytes: &mut Vec<u8>) -> Vec<u8> {
        let begin = bytes.len();
        let (kind, encodings) = match self {
            Self::Texts(_) => (BYTE_ARRAY, &[PLAIN, RLE, RLE_DICTIONARY][..]),
            Self::Numbers(_) => (DOUBLE, &[PLAIN, RLE][..]),
        };
        let data_at = match self {
            Self::Texts(texts) => {
                let (dictionary, places) = Dictionary::of(texts);
                let mut header = ThriftStruct::default();
                header.int32(1, to_int(dictionary.count)).int32(2, PLAIN);
                page(DICTIONARY_PAGE, (7, header), &dictionary.bytes, bytes);
                let data_at = bytes.len();
                let present: Vec<u32> = texts.iter().map(|text| u32::from(!text.is_empty())).collect();
                let width = bits(dictionary.count.saturating_sub(1));
                let mut values = vec![width];
                values.extend(hybrid(&places, width));
                data_page(&present, RLE_DICTIONARY, &values, bytes);
                data_at
            }
            Self::Numbers(numbers) => {
                let present: Vec<u32> = numbers.iter().map(|number| u32::from(number.is_some())).collect();
                let values: Vec<u8> = numbers.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
                data_page(&present, PLAIN, &values, bytes);
                begin
            }
        };
        let size = to_int(bytes.len() - begin);
        let mut metadata = ThriftStruct::default();
        metadata.int32(1, kind).int32s(2, encodings).texts(3, &[name]).int32(4, 0).int(5, to_int(self.len()));
        metadata.int(6, size).int(7, size).int(9, to_int(written + data_at));
        if matches!(self, Self::Texts(_)) {
            metadata.int(11, to_int(written + begin));
        }
        let mut chunk = ThriftStruct::default();
        chunk.int(2, to_int(written + begin)).nested(3, &metadata.end());
        chunk.end()
    }
}

/// Distinct texts of a column.
#[derive(Default)]
struct Dictionary {
    count: usize,
    /// Distinct texts, each after its length in bytes.
    bytes: Vec<u8>,
}

impl Dictionary {
    /// Returns the dictionary of these texts, and for each non-empty text its index there.
    fn of(texts: &[String]) -> (Self, Vec<u32>) {
        let mut dictionary = Self::default();
        let mut known: HashMap<&str, u32> = HashMap::new();
        let present = texts.iter().filter(|text| !text.is_empty());
        let places = present.map(|text| {
            *known.entry(text).or_insert_with(|| {
                dictionary.bytes.extend_from_slice(&length(text.as_bytes()));
                dictionary.bytes.extend_from_slice(text.as_bytes());
                dictionary.count += 1;
                u32::try_from(dictionary.count - 1).unwrap_or(u32::MAX)
            })
        });
        let places = places.collect();
        (dictionary, places)
    }
}

/// Appends a data page to `bytes`: flags for the rows that have a value, and the values.
fn data_page(present: &[u32], encoding: i64, values: &[u8], bytes: &mut Vec<u8>) {
    let levels = hybrid(present, 1);
    let content = [&length(&levels)[..], &levels, values].concat();
    let mut header = ThriftStruct::default();
    header.int32(1, to_int(present.len())).int32(2, encoding).int32(3, RLE).int32(4, RLE);
    page(DATA_PAGE, (5, header), &content, bytes);
}

/// Appends a page with its `PageHeader` to `bytes`. `of_kind` is the header for the page's type,
/// which is the field with the number `field`.
fn page(kind: i64, (field, of_kind): (i16, ThriftStruct), content: &[u8], bytes: &mut Vec<u8>) {
    let size = to_int(content.len());
    let mut header = ThriftStruct::default();
    header.int32(1, kind).int32(2, size).int32(3, size).nested(field, &of_kind.end());
    bytes.extend_from_slice(&header.end());
    bytes.extend_from_slice(content);
}

/// Returns the number of bits, at least one, that numbers up to `largest` need.
fn bits(largest: usize) -> u8 {
    (usize::BITS - largest.leading_zeros()).max(1) as u8
}

/// Encodes numbers of `width` bits in Parquet's hybrid of run lengths and packed bits. If all are
/// equal, they form one run; otherwise they are packed.
fn hybrid(numbers: &[u32], width: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(first) = numbers.first() else { return bytes };
    if numbers.iter().all(|number| number == first) {
        varint((numbers.len() as u64) << 1, &mut bytes);
        bytes.extend_from_slice(&first.to_le_bytes()[..usize::from(width.div_ceil(8))]);
        return bytes;
    }
    varint((numbers.len().div_ceil(8) as u64) << 1 | 1, &mut bytes);
    for group in numbers.chunks(8) {
        let mut packed = [0_u8; 32];
        for (index, number) in group.iter().enumerate() {
            for bit in (0..usize::from(width)).filter(|bit| number >> bit & 1 == 1) {
                let place = index * usize::from(width) + bit;
                packed[place / 8] |= 1 << (place % 8);
            }
        }
        bytes.extend_from_slice(&packed[..usize::from(width)]);
    }
    bytes
}

fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
}

fn to_int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn varint(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A structure of Thrift's compact protocol. Fields must be added in the order of their numbers.
#[derive(Debug, Default)]
struct ThriftStruct {
    bytes: Vec<u8>,
    last: i16,
}

/// Type codes of Thrift's compact protocol.
const INT32: u8 = 5;
const INT64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl ThriftStruct {
    fn field(&mut self, number: i16, kind: u8) {
        // A field's number exceeds the previous field's number by at most 15.
        self.bytes.push(((number - self.last) as u8) << 4 | kind);
        self.last = number;
    }

    fn number(&mut self, number: i64) {
        varint((number << 1 ^ number >> 63) as u64, &mut self.bytes);
    }

    fn int32(&mut self, field: i16, number: i64) -> &mut Self {
        self.field(field, INT32);
        self.number(number);
        self
    }

    fn int(&mut self, field: i16, number: i64) -> &mut Self {
        self.field(field, INT64);
        self.number(number);
        self
    }

    fn binary(&mut self, text: &str) {
        varint(text.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn text(&mut self, field: i16, text: &str) -> &mut Self {
        self.field(field, BINARY);
        self.binary(text);
        self
    }

    fn list(&mut self, field: i16, kind: u8, count: usize) {
        self.field(field, LIST);
        if count < 15 {
            self.bytes.push((count as u8) << 4 | kind);
        } else {
            self.bytes.push(0xF0 | kind);
            varint(count as u64, &mut self.bytes);
        }
    }

    fn int32s(&mut self, field: i16, numbers: &[i64]) -> &mut Self {
        self.list(field, INT32, numbers.len());
        numbers.iter().for_each(|number| self.number(*number));
        self
    }

    fn texts(&mut self, field: i16, texts: &[&str]) -> &mut Self {
        self.list(field, BINARY, texts.len());
        texts.iter().for_each(|text| self.binary(text));
        self
    }

    /// Adds a list of encoded structures.
    fn structs(&mut self, field: i16, structs: &[Vec<u8>]) -> &mut Self {
        self.list(field, STRUCT, structs.len());
        structs.iter().for_each(|bytes| self.bytes.extend_from_slice(bytes));
        self
    }

    fn nested(&mut self, field: i16, bytes: &[u8]) -> &mut Self {
        self.field(field, STRUCT);
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Value of a field in the compact protocol.
    #[derive(Debug, Clone, PartialEq)]
    enum Thrift {
        Number(i64),
        Text(String),
        List(Vec<Thrift>),
        Struct(BTreeMap<i16, Thrift>),
    }

    impl Thrift {
        fn of(&self, field: i16) -> &Self {
            let Self::Struct(fields) = self else { panic!("no structure: {self:?}") };
            &fields[&field]
        }

        fn number(&self) -> usize {
            let Self::Number(number) = self else { panic!("no number: {self:?}") };
            usize::try_from(*number).unwrap()
        }

        fn list(&self) -> &[Self] {
            let Self::List(items) = self else { panic!("no list: {self:?}") };
            items
        }
    }

    /// Reads bytes from the front.
    struct Reader<'a>(&'a [u8]);

    impl Reader<'_> {
        fn byte(&mut self) -> u8 {
            let (first, rest) = self.0.split_first().unwrap();
            self.0 = rest;
            *first
        }

        fn varint(&mut self) -> u64 {
            let mut number = 0;
            for shift in (0..).step_by(7) {
                let byte = self.byte();
                number |= u64::from(byte & 0x7F) << shift;
                if byte < 0x80 {
                    break;
                }
            }
            number
        }

        fn value(&mut self, kind: u8) -> Thrift {
            match kind {
                INT32 | INT64 => {
                    let number = self.varint();
                    Thrift::Number((number >> 1) as i64 ^ -((number & 1) as i64))
                }
                BINARY => {
                    let length = self.varint() as usize;
                    let (text, rest) = self.0.split_at(length);
                    self.0 = rest;
                    Thrift::Text(String::from_utf8(text.to_vec()).unwrap())
                }
                LIST => {
                    let head = self.byte();
                    let count = if head >> 4 == 15 { self.varint() as usize } else { usize::from(head >> 4) };
                    Thrift::List((0..count).map(|_| self.value(head & 15)).collect())
                }
                STRUCT => {
                    let (mut fields, mut number) = (BTreeMap::new(), 0);
                    loop {
                        let head = self.byte();
                        if head == 0 {
                            return Thrift::Struct(fields);
                        }
                        number += i16::from(head >> 4);
                        fields.insert(number, self.value(head & 15));
                    }
                }
                other => panic!("type {other}"),
            }
        }

        /// Reads numbers in the hybrid encoding.
        fn hybrid(&mut self, width: usize, count: usize) -> Vec<usize> {
            let head = self.varint() as usize;
            let mut numbers = Vec::new();
            if head & 1 == 0 {
                let value =
                    (0..width.div_ceil(8)).fold(0, |value, byte| value | usize::from(self.byte()) << (8 * byte));
                numbers.resize(head >> 1, value);
            } else {
                let packed: Vec<u8> = (0..(head >> 1) * width).map(|_| self.byte()).collect();
                let bit = |place: usize| usize::from(packed[place / 8] >> (place % 8) & 1);
                numbers.extend(
                    (0..count).map(|index| (0..width).fold(0, |value, at| value | bit(index * width + at) << at)),
                );
            }
            assert_eq!(numbers.len(), count);
            numbers
        }

        fn texts(&mut self, count: usize) -> Vec<String> {
            let mut text = || {
                let length = u32::from_le_bytes([0; 4].map(|_: u8| self.byte())) as usize;
                String::from_utf8((0..length).map(|_| self.byte()).collect()).unwrap()
            };
            (0..count).map(|_| text()).collect()
        }
    }

    fn footer(file: &[u8]) -> Thrift {
        assert!(file.starts_with(MAGIC) && file.ends_with(MAGIC));
        let end = file.len() - 8;
        let length = u32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
        Reader(&file[end - length..end]).value(STRUCT)
    }

    /// Reads a column of a row group.
    fn column(file: &[u8], group: &Thrift, index: usize) -> ColumnValues {
        let metadata = group.of(1).list()[index].of(3);
        let is_text = metadata.of(1).number() == BYTE_ARRAY as usize;
        let mut dictionary = Vec::new();
        if is_text {
            let mut reader = Reader(&file[metadata.of(11).number()..]);
            let count = reader.value(STRUCT).of(7).of(1).number();
            dictionary = reader.texts(count);
        }
        let mut reader = Reader(&file[metadata.of(9).number()..]);
        let header = reader.value(STRUCT);
        let before = reader.0.len();
        let count = header.of(5).of(1).number();
        reader.0 = &reader.0[4..];
        let present = reader.hybrid(1, count);
        let mut places = Vec::new();
        let of_values: usize = present.iter().sum();
        if is_text {
            let width = usize::from(reader.byte());
            places = if of_values > 0 { reader.hybrid(width, of_values) } else { Vec::new() };
        }
        let mut places = places.into_iter();
        let mut number = || f64::from_le_bytes([0; 8].map(|_: u8| reader.byte()));
        let values = if is_text {
            let text = |is: &usize| if *is == 1 { dictionary[places.next().unwrap()].clone() } else { String::new() };
            ColumnValues::Texts(present.iter().map(text).collect())
        } else {
            ColumnValues::Numbers(present.iter().map(|is| (*is == 1).then(&mut number)).collect())
        };
        assert_eq!(before - reader.0.len(), header.of(3).number(), "the page is as long as it says");
        values
    }

    #[test]
    fn written_tables_are_read_back_unchanged() {
        let texts = |texts: &[&str]| ColumnValues::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
        let many: Vec<String> = (0..1_000).map(|number| format!("figure {}", number % 300)).collect();
        let numbers: Vec<Option<f64>> =
            (0..1_000).map(|number| (number % 3 > 0).then(|| f64::from(number) / 7.0)).collect();
        let groups = [
            vec![
                texts(&["a", "", "größe", "a"]),
                ColumnValues::Numbers(vec![Some(1.5), None, Some(-0.0), Some(1e300)]),
            ],
            vec![texts(&["", ""]), ColumnValues::Numbers(vec![None, None])],
            vec![texts(&["b"]), ColumnValues::Numbers(vec![Some(2.0)])],
            vec![ColumnValues::Texts(many), ColumnValues::Numbers(numbers)],
        ];
        let mut file = ParquetFile::new(vec![("name".to_owned(), true), ("latency_us.p99".to_owned(), false)]);
        let mut bytes: Vec<u8> = groups.iter().flat_map(|group| file.rows(group)).collect();
        bytes.extend(file.end());
        let footer = footer(&bytes);
        assert_eq!(footer.of(3).number(), 4 + 2 + 1 + 1_000);
        let names: Vec<&Thrift> = footer.of(2).list().iter().map(|element| element.of(4)).collect();
        assert_eq!(names, ["plimsoll", "name", "latency_us.p99"].map(|name| Thrift::Text(name.to_owned())).each_ref());
        for (read, written) in footer.of(4).list().iter().zip(&groups) {
            for (index, values) in written.iter().enumerate() {
                assert_eq!(column(&bytes, read, index), *values);
            }
        }
        assert_eq!(footer.of(4).list().len(), groups.len());
    }

    #[test]
    fn a_table_without_rows_is_a_valid_file() {
        let bytes = ParquetFile::new(vec![("name".to_owned(), true)]).end();
        assert_eq!((footer(&bytes).of(3).number(), footer(&bytes).of(4).list().len()), (0, 0));
    }
}
