//! Messages from JSON, byte by byte. The bytes are those of Google's implementation for Python.

use super::*;
use crate::protobuf::json_text;
use crate::protobuf::testing::{kinds, types};
use crate::testing::{names, source};

/// Returns the bytes of the messages of this JSON template.
fn encoded(name: &str, json: &str) -> Result<Vec<Vec<u8>>, String> {
    let template = CompiledTemplate::compile(json, 3, &names()).unwrap();
    let types = types();
    let layouts = compile(&types, types.find_message(name).unwrap(), &template, true)?;
    let source = source(3, 300);
    let mut writer = template.piece_writer(&source);
    let write = |layout: MessageLayout| {
        let mut out = b"before".to_vec();
        layout.write(&mut writer, &mut out).map_err(|why| why.to_string())?;
        Ok(out.split_off(6))
    };
    layouts.into_iter().map(write).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn kinds_hex(json: &str) -> String {
    encoded("test.kinds.v1.Kinds", json)
        .unwrap_or_else(|wrong| panic!("{json}: {wrong}"))
        .iter()
        .map(|one| hex(one))
        .collect()
}

/// Returns the text of the mistake in this JSON.
fn wrong(json: &str) -> String {
    encoded("test.kinds.v1.Kinds", json).unwrap_err()
}

/// Writes the braces of JSON as templates have them.
fn template(json: &str) -> String {
    json.replace('{', "{{").replace('}', "}}")
}

#[test]
fn messages_have_the_bytes_of_another_implementation() {
    for (json, bytes, back) in [
        ("{}", "", ""),
        (
            r#"{"aDouble":1.5,"aFloat":-0.25,"anInt32":-1,"anInt64":"-9223372036854775808","aUint32":4294967295,"aUint64":"18446744073709551615","aSint32":-2,"aSint64":"-3","aFixed32":7,"aFixed64":"8","aSfixed32":-9,"aSfixed64":"-10","aBool":true,"aString":"h\u00e9 \"q\"","aBytes":"AAH/","colour":"COLOUR_RED"}"#,
            "09000000000000f83f15000080be18ffffffffffffffffff01208080808080808080800128ffffffff0f30ffffffffffffffffff01380340054d070000005108000000000000005df7ffffff61f6ffffffffffffff6801720768c3a9202271227a030001ff800101",
            r#"{"aDouble":1.5,"aFloat":-0.25,"anInt32":-1,"anInt64":"-9223372036854775808","aUint32":4294967295,"aUint64":"18446744073709551615","aSint32":-2,"aSint64":"-3","aFixed32":7,"aFixed64":"8","aSfixed32":-9,"aSfixed64":"-10","aBool":true,"aString":"hé \"q\"","aBytes":"AAH/","colour":"COLOUR_RED"}"#,
        ),
        (
            r#"{"colour":"COLOUR_DARK","inner":{"name":"a","count":3,"next":{"name":"b"}}}"#,
            "8001ffffffffffffffffff018a010a0a016110031a030a0162",
            "",
        ),
        (
            r#"{"numbers":[1,300,-1],"loose":[1,2],"texts":["","x"],"inners":[{},{"count":1}]}"#,
            "92010d01ac02ffffffffffffffffff01980101980102a20100a2010178aa0100aa01021001",
            "",
        ),
        (r#"{"counts":{"a":1},"byId":{"7":{"name":"n"}}}"#, "b201050a01611001ba0107080712030a016e", ""),
        (r#"{"maybe":0,"left":""}"#, "c00100ca0100", ""),
        (
            r#"{"right":{"name":"r"},"at":"2024-02-29T12:30:00.500Z","lasts":"-1.500s"}"#,
            "d201030a0172da010c08c8f181af061080cab5ee01e2011608ffffffffffffffffff011080b6ca91feffffffff01",
            "",
        ),
        (
            r#"{"value":{"a":[1,"x",null,true,{"b":false}]}}"#,
            "ea01302a2e0a2c0a0161122732250a0911000000000000f03f0a031a01780a0208000a0220010a0b2a090a070a016212022000",
            "",
        ),
        (
            r#"{"wrapped":"5","mask":"user.displayName,photo","object":{"k":"v"},"other":"o"}"#,
            "f20102080582021a0a11757365722e646973706c61795f6e616d650a0570686f746f8a020a0a080a016b12031a01769202016f",
            "",
        ),
        (
            r#"{"any":{"@type":"type.googleapis.com/test.kinds.v1.Kinds.Inner","name":"in"}}"#,
            "fa01350a2d747970652e676f6f676c65617069732e636f6d2f746573742e6b696e64732e76312e4b696e64732e496e6e657212040a02696e",
            "",
        ),
        (
            r#"{"value":null,"any":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"}}"#,
            "ea01020800fa01320a2c747970652e676f6f676c65617069732e636f6d2f676f6f676c652e70726f746f6275662e4475726174696f6e12020801",
            "",
        ),
        (r#"{"inner":{},"wrapped":"0"}"#, "8a0100f20100", ""),
    ] {
        assert_eq!(kinds_hex(&template(json)), bytes, "{json}");
        let read = encoded("test.kinds.v1.Kinds", &template(json)).unwrap();
        let mut text = Vec::new();
        let (types, kinds) = (types(), kinds());
        json_text::write_message(&types, kinds, &read[0], &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), if back.is_empty() { json } else { back });
    }
}

#[test]
fn groups_and_repeated_numbers_of_proto2() {
    let json = r#"{"name":"n","count":0,"loose":[1,2],"packed":[1,2],"part":[{"text":"t","deep":{"is":true}},{}]}"#;
    let read = encoded("test.old.Old", &template(json)).unwrap();
    assert_eq!(hex(&read[0]), "0a016e100018011802220201022b0a0174130801142c2b2c");
    let (types, mut text) = (types(), Vec::new());
    json_text::write_message(&types, types.find_message("test.old.Old").unwrap(), &read[0], &mut text).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), json);
}

#[test]
fn values_fill_the_gaps() {
    for (json, same) in [
        (r#"{{"a_string": "{agent}"}}"#, r#"{"aString": "3"}"#),
        (r#"{{"aString": "a-{agent}-{seq}-b"}}"#, r#"{"aString": "a-3-300-b"}"#),
        (r#"{{"anInt32": {seq}}}"#, r#"{"anInt32": 300}"#),
        (r#"{{"anInt32": "{seq}"}}"#, r#"{"anInt32": 300}"#),
        (r#"{{"anInt32": "-1{agent}"}}"#, r#"{"anInt32": -13}"#),
        (r#"{{"aSint64": {seq}, "aFixed32": {agent}, "aDouble": {agent}.5}}"#, ""),
        (r#"{{"aDouble": "{agent}.5", "aBool": "{choice:true,true}"}}"#, r#"{"aDouble": 3.5, "aBool": true}"#),
        (r#"{{"colour": "COLOUR_{choice:RED,RED}"}}"#, r#"{"colour": "COLOUR_RED"}"#),
        (r#"{{"aBytes": "{base64:k{seq}}"}}"#, r#"{"aBytes": "azMwMA=="}"#),
        (r#"{{"numbers": [1, {seq}, {agent}]}}"#, r#"{"numbers": [1, 300, 3]}"#),
        (
            r#"{{"inner": {{"name": "{agent}", "next": {{"count": {seq}}}}}, "texts": ["{seq}"]}}"#,
            r#"{"inner": {"name": "3", "next": {"count": 300}}, "texts": ["300"]}"#,
        ),
        (r#"{{"counts": {{"k{agent}": {seq}}}}}"#, r#"{"counts": {"k3": 300}}"#),
        (r#"{{"wrapped": {seq}, "value": ["{agent}", {seq}]}}"#, r#"{"wrapped": 300, "value": ["3", 300]}"#),
        (r#"{{"at": {{"seconds": {seq}}}}}"#, r#"{"at": "1970-01-01T00:05:00Z"}"#),
    ] {
        if same.is_empty() {
            assert!(wrong(json).contains("expected `,` or `}`"), "{}", wrong(json));
        } else {
            assert_eq!(kinds_hex(json), kinds_hex(&template(same)), "{json}");
        }
    }
}

#[test]
fn lengths_of_any_size_fit() {
    for length in [1, 100, 120, 127, 128, 129, 16_300, 16_383, 16_384, 20_000] {
        let constant = "x".repeat(length);
        for (before, behind) in [("", ""), ("y", "z"), (&*"y".repeat(130), "")] {
            let json = |text: &str| format!(r#"{{{{"inner": {{{{"name": "{before}{text}{behind}", "count": 1}}}}}}}}"#);
            // A choice is not constant.
            let variable = json(&format!("{{choice:{constant},{constant}}}"));
            assert!(kinds_hex(&variable) == kinds_hex(&json(&constant)), "{length} {}", before.len());
        }
    }
}

#[test]
fn an_array_is_several_messages() {
    let name = "test.kinds.v1.Kinds.Inner";
    let two = encoded(name, r#"[{{"name": "{agent}"}}, {{"count": {seq}}}]"#).unwrap();
    assert_eq!(two, [b"\x0a\x013".as_slice(), b"\x10\xac\x02"]);
    assert_eq!(encoded(name, "[]").unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn random_values_are_those_of_the_whole_template() {
    let text =
        r#"{{"aString": "{uniform:1..1000000000}", "texts": ["{bytes:9}"], "anInt64": {uniform:1..1000000000}}}"#;
    let template = CompiledTemplate::compile(text, 3, &names()).unwrap();
    let mut whole = Vec::new();
    template.write(&source(3, 300), &mut whole);
    let (types, message, mut sent) = (types(), encoded("test.kinds.v1.Kinds", text).unwrap(), Vec::new());
    json_text::write_message(&types, kinds(), &message[0], &mut sent).unwrap();
    let read = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).unwrap();
    let (whole, sent) = (read(&whole), read(&sent));
    assert_eq!((&whole["aString"], &whole["texts"]), (&sent["aString"], &sent["texts"]));
    assert_eq!(whole["anInt64"].to_string(), sent["anInt64"].as_str().unwrap());
}

#[test]
fn mistakes_name_their_field() {
    for (json, expected) in [
        (r#"{"none": 1}"#, "has no field `none`; its fields are aDouble, "),
        (
            r#"{"inner": {"nane": 1}}"#,
            "`inner`: `test.kinds.v1.Kinds.Inner` has no field `nane`; its fields are name, count, next",
        ),
        (
            r#"{"inner": 1}"#,
            "`inner`: expected an object, because `test.kinds.v1.Kinds.Inner` is a message, found a number",
        ),
        (r#"{"anInt32": "x"}"#, "`anInt32`: expected int32, found `x`"),
        (r#"{"anInt32": 2147483648}"#, "expected int32, found `2147483648`"),
        (r#"{"aUint32": -1}"#, "expected uint32"),
        (r#"{"aFloat": 1e39}"#, "expected float"),
        (r#"{"aString": 1}"#, "`aString`: expected a text, found a number"),
        (r#"{"aBytes": "?"}"#, "`aBytes`: expected base64"),
        (r#"{"colour": "BLUE"}"#, "expected one of COLOUR_UNSPECIFIED, COLOUR_RED"),
        (r#"{"numbers": 1}"#, "expected an array"),
        (r#"{"inners": [{}, {"count": true}]}"#, "`inners.1.count`: expected int32, found true or false"),
        (r#"{"counts": []}"#, "expected an object, because the field is a map"),
        (r#"{"left": "", "right": {}}"#, "only one of `left` and `right`"),
        (r#"{"aBool": true, "a_bool": true}"#, "only one of `aBool` and `a_bool`"),
        (r#"{"at": "yesterday"}"#, "expected a constant such as \"2024"),
        (r#"{"any": {"name": "x"}}"#, "\"@type\""),
        (r#"{"any": {"@type": "x/none"}}"#, "no file defines the message `none`"),
        (r#"{"aBool": true"#, "the JSON text is not valid: expected `,` or `}`, found the end"),
        (r#"{"aBool": yes}"#, "`yes` is no value"),
        (r#"{"aBool": true} x"#, "expected the end of the JSON text, found `x`"),
        ("[1]", "expected an object"),
        ("7", "expected an object"),
    ] {
        let told = wrong(&template(json));
        assert!(told.contains(expected), "{json}: {told}");
    }
    assert!(wrong(r#"{{"aString": {agent}}}"#).contains("put it in quotes"));
    assert!(wrong(r#"{{"{agent}": 1}}"#).contains("cannot be the name of a field"));
    assert!(wrong(r#"{{"inner": "{agent}"}}"#).contains("expected an object"));
    assert!(wrong(&(template("[").repeat(99))).contains("more than 64"));
    let deep = format!("{}{}{}", r#"{{"inner": {{"next": "#, r#"{{"next": "#.repeat(30), r#"{{"name": "{agent}"}}"#);
    assert!(wrong(&(deep + &"}}".repeat(32))).contains("more than 24 messages"));
}

#[test]
fn values_that_do_not_fit_are_not_sent() {
    for (json, why) in [
        (r#"{{"anInt32": "x{agent}"}}"#, "a text that is no value of its field's type"),
        (r#"{{"aUint32": "-{agent}"}}"#, "a text that is no value of its field's type"),
        (r#"{{"aString": "{random_bytes:40}"}}"#, "bytes that are not UTF-8 in a text field"),
        (r#"{{"aBytes": "{agent}"}}"#, "a text that is not base64 in a field of bytes"),
    ] {
        assert_eq!(encoded("test.kinds.v1.Kinds", json).unwrap_err(), why, "{json}");
    }
}

#[test]
fn base64_of_both_alphabets_with_and_without_padding() {
    for (text, bytes) in [("", &b""[..]), ("AA==", b"\0"), ("AA", b"\0"), ("-_8=", b"\xfb\xff"), ("+/8", b"\xfb\xff")] {
        let mut out = text.as_bytes().to_vec();
        assert_eq!((decode_base64(&mut out, 0), out.as_slice()), (Some(()), bytes), "{text}");
    }
    for wrong in ["A", "====", "AA===", "A=A=", "é"] {
        assert_eq!(decode_base64(&mut wrong.as_bytes().to_vec(), 0), None, "{wrong}");
    }
}
