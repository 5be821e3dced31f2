//! Linearizability of sets.
//!
//! A set that only grows is decided in linear time after sorting. An element is added at a moment
//! between the least start and the least end of its adds. An operation that finds the element
//! present ends after this moment, and one that finds it absent starts before it. Reads of the
//! whole set must be ordered by inclusion. So the adds of the elements of the smallest read come
//! first, then this read and its equals, then the adds of the elements that the next larger read
//! has in addition, and so on. Moments that fit this order exist if no operation ends before one
//! starts that comes earlier in it.
//!
//! If elements are removed and nothing reads the whole set, each element is a register by itself,
//! which is absent or has one value. Reads of a whole set from which elements are removed are
//! checked for each element by itself: this finds violations, but does not exclude them.

use std::collections::HashSet;

use crate::carry::InitialValue;
use crate::checker::{KeyMap, Settings, check};
use crate::explanation::explained;
use crate::key_history::Linearizability;
use crate::operation::{Access, NEVER, Operation, Status, effect_interval};
use crate::proof::{Proof, name, operation_name};

#[cfg(test)]
mod tests;

/// An operation on a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetOperation {
    pub start_ns: i64,
    /// `None` if no answer came.
    pub end_ns: Option<i64>,
    pub access: SetAccess,
    pub status: Status,
}

/// Kind of operation on a set. Elements must not have the two highest numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetAccess {
    Add {
        element: u64,
    },
    Remove {
        element: u64,
    },
    /// Looks for one element.
    Find {
        element: u64,
        is_present: bool,
    },
    Read {
        elements: Vec<u64>,
    },
}

/// Most looks at single elements that reads of a whole set are taken apart to.
const FINDS: usize = 10_000_000;

/// Checks a history of one set. The proof of a violation refers to positions in `operations`.
/// The set may have held elements before its first operation if `settings.initial` is
/// [`InitialValue::Seen`], and was empty otherwise.
pub fn check_set(operations: &[SetOperation], settings: Settings) -> Linearizability {
    let is_removal = |operation: &SetOperation| matches!(operation.access, SetAccess::Remove { .. });
    if operations.iter().any(|operation| is_removal(operation) && operation.status != Status::Failed) {
        return by_element(operations, settings);
    }
    match GrowingSet::new(operations, settings).and_then(|mut set| set.check()) {
        Ok(()) => Linearizability::Linearizable,
        Err(proof) => Linearizability::Violation(proof),
    }
}

/// A time that an operation bounds.
#[derive(Debug, Clone, Copy)]
struct MomentBound {
    at: i64,
    operation: usize,
}

/// Moment at which an element is added.
#[derive(Debug, Clone, Copy)]
struct ElementMoment {
    element: u64,
    earliest: MomentBound,
    latest: MomentBound,
    /// An operation that adds it.
    writer: usize,
    /// Place of the smallest read that has it.
    first_read: u32,
}

/// Place of the reads that do not have an element.
const NO_READ: u32 = u32::MAX;

/// A read of the whole set.
struct WholeRead {
    /// Sorted, each once.
    elements: Vec<u64>,
    start: i64,
    end: i64,
    operation: usize,
}

struct GrowingSet {
    moments: Vec<ElementMoment>,
    places: KeyMap<u32>,
    reads: Vec<WholeRead>,
    /// Whether the set may have held elements before the first operation.
    may_be_older: bool,
}

impl GrowingSet {
    fn new(operations: &[SetOperation], settings: Settings) -> Result<Self, Proof> {
        let may_be_older = settings.initial == InitialValue::Seen;
        let mut set = Self { moments: Vec::new(), places: KeyMap::default(), reads: Vec::new(), may_be_older };
        let mut finds = Vec::new();
        for (operation, it) in operations.iter().enumerate() {
            let Some((start, end)) = it.span(settings.clock_error_ns) else { continue };
            match &it.access {
                SetAccess::Add { element } => {
                    set.add(*element, MomentBound { at: start, operation }, MomentBound { at: end, operation });
                }
                _ if end == NEVER => {}
                SetAccess::Find { element, is_present } => finds.push((*element, *is_present, (start, end), operation)),
                SetAccess::Read { elements } => {
                    let mut elements = elements.clone();
                    elements.sort_unstable();
                    elements.dedup();
                    set.reads.push(WholeRead { elements, start, end, operation });
                }
                SetAccess::Remove { .. } => {}
            }
        }
        set.reads.sort_by_key(|read| read.elements.len());
        if may_be_older {
            set.admit_older(&finds);
        }
        for (element, is_present, span, operation) in finds {
            set.find(element, is_present, span, operation)?;
        }
        Ok(set)
    }

    /// Adds, before all operations, the elements that were there each time that anybody looked. Any
    /// of them may be older than the history, and each order of the operations that is possible
    /// without some of them is also possible with all of them.
    fn admit_older(&mut self, finds: &[(u64, bool, (i64, i64), usize)]) {
        let missed: HashSet<u64> = finds.iter().filter(|(_, is_present, ..)| !is_present).map(|find| find.0).collect();
        let seen: Vec<(u64, usize)> = match self.reads.first() {
            Some(read) => read.elements.iter().map(|&element| (element, read.operation)).collect(),
            None => finds.iter().map(|(element, .., operation)| (*element, *operation)).collect(),
        };
        for (element, operation) in seen.into_iter().filter(|(element, _)| !missed.contains(element)) {
            let before_all = MomentBound { at: i64::MIN, operation };
            self.add(element, before_all, before_all);
        }
    }

    fn add(&mut self, element: u64, start: MomentBound, end: MomentBound) {
        let next = self.moments.len() as u32;
        let place = *self.places.entry(element).or_insert(next);
        if place == next {
            let writer = start.operation;
            self.moments.push(ElementMoment { element, earliest: start, latest: end, writer, first_read: NO_READ });
            return;
        }
        let moment = &mut self.moments[place as usize];
        if start.at < moment.earliest.at {
            (moment.earliest, moment.writer) = (start, start.operation);
        }
        if end.at < moment.latest.at {
            moment.latest = end;
        }
    }

    /// Takes a look at one element into account.
    fn find(&mut self, element: u64, is_present: bool, span: (i64, i64), operation: usize) -> Result<(), Proof> {
        let Some(&place) = self.places.get(&element) else {
            return if is_present { Err(self.never_added(element, operation)) } else { Ok(()) };
        };
        let moment = &mut self.moments[place as usize];
        if is_present && span.1 < moment.latest.at {
            moment.latest = MomentBound { at: span.1, operation };
        }
        if !is_present && span.0 > moment.earliest.at {
            moment.earliest = MomentBound { at: span.0, operation };
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), Proof> {
        self.order_reads()?;
        for moment in &self.moments {
            if moment.latest.at < moment.earliest.at {
                return Err(self.not_older(contradiction(moment)));
            }
        }
        let first_places = self.first_places();
        // Elements by the smallest read that has them.
        let mut by_read: Vec<&ElementMoment> = self.moments.iter().collect();
        by_read.sort_unstable_by_key(|moment| moment.first_read);
        let mut elements = by_read.into_iter().peekable();
        let mut latest_start: Option<OrderedEvent<'_>> = None;
        let mut place = 0;
        while place < self.reads.len() {
            let equals = first_places[place..].partition_point(|&first| first == place as u32);
            let mut group = Vec::new();
            while let Some(moment) = elements.next_if(|moment| moment.first_read as usize <= place) {
                group.push(OrderedEvent::of_moment(moment));
            }
            latest_start = self.put_after(latest_start, &group)?;
            let group: Vec<_> = self.reads[place..place + equals].iter().map(OrderedEvent::of_read).collect();
            latest_start = self.put_after(latest_start, &group)?;
            place += equals;
        }
        let rest: Vec<_> = elements.map(OrderedEvent::of_moment).collect();
        self.put_after(latest_start, &rest).map(|_| ())
    }

    /// Finds the smallest read that has each element. Reads are ordered by inclusion if each has
    /// all elements that smaller ones have.
    fn order_reads(&mut self) -> Result<(), Proof> {
        let mut known = 0;
        for (place, read) in self.reads.iter().enumerate() {
            let mut old = 0;
            for element in &read.elements {
                let Some(&known) = self.places.get(element) else {
                    return Err(self.never_added(*element, read.operation));
                };
                let first = &mut self.moments[known as usize].first_read;
                if *first == NO_READ {
                    *first = place as u32;
                } else if (*first as usize) < place {
                    old += 1;
                }
            }
            if old < known
                && let Some(proof) = self.not_included(place)
            {
                return Err(proof);
            }
            known = read.elements.len();
        }
        Ok(())
    }

    /// Returns, for each read, the place of the first read that is equal.
    fn first_places(&self) -> Vec<u32> {
        let mut first = 0;
        let size = |place: usize| self.reads[place].elements.len();
        let place = |place: usize| {
            if size(place) != size(first) {
                first = place;
            }
            first as u32
        };
        (0..self.reads.len()).map(place).collect()
    }

    /// Puts a group of events after all earlier ones. Returns the event with the latest start.
    fn put_after<'s>(
        &'s self,
        latest_start: Option<OrderedEvent<'s>>,
        group: &[OrderedEvent<'s>],
    ) -> Result<Option<OrderedEvent<'s>>, Proof> {
        if let Some(earlier) = latest_start
            && let Some(later) = group.iter().find(|later| later.end.at < earlier.start.at)
        {
            return Err(self.wrong_order(&earlier, later));
        }
        Ok(latest_start.into_iter().chain(group.iter().copied()).max_by_key(|event| event.start.at))
    }

    fn never_added(&self, element: u64, reader: usize) -> Proof {
        let text = explained![operation_name(reader), " found ", name(element), ", which was never added"];
        self.not_older(Proof::new([reader], text))
    }

    /// Adds a read that shows that the elements of a proof are not older than the history.
    fn not_older(&self, mut proof: Proof) -> Proof {
        if let Some(read) = self.reads.first().filter(|_| self.may_be_older) {
            proof.add(read.operation);
        }
        proof
    }

    /// Proves that a read misses an element of a read that is not larger. So it has another one
    /// that this read misses.
    fn not_included(&self, place: usize) -> Option<Proof> {
        let has = |read: &WholeRead, element: u64| read.elements.binary_search(&element).is_ok();
        let moments = self.moments.iter();
        let larger = &self.reads[place];
        let missed =
            moments.clone().find(|moment| (moment.first_read as usize) < place && !has(larger, moment.element))?;
        let smaller = &self.reads[missed.first_read as usize];
        let other = moments.clone().find(|moment| has(larger, moment.element) && !has(smaller, moment.element))?;
        let (one, two) = (operation_name(smaller.operation), operation_name(larger.operation));
        let (first, second) = (name(missed.element), name(other.element));
        let (read, without) = (" read ", " without ");
        let text =
            explained![one, read, first.clone(), without, second.clone(), ", but ", two, read, second, without, first];
        Some(Proof::new([smaller.operation, larger.operation, missed.writer, other.writer], text))
    }

    /// Proves that an event ended before one that must come earlier started.
    fn wrong_order(&self, earlier: &OrderedEvent<'_>, later: &OrderedEvent<'_>) -> Proof {
        let (start, end) = (operation_name(earlier.start.operation), operation_name(later.end.operation));
        let mut core = vec![earlier.start.operation, later.end.operation];
        let text = match (earlier.moment, later.moment) {
            (Some(early), Some(late)) => {
                // Some read lies between the two groups.
                let read = &self.reads[early.first_read as usize];
                core.extend([early.writer, late.writer, read.operation]);
                let (first, second) = (name(early.element), name(late.element));
                let (read, without) = (operation_name(read.operation), " without ");
                explained![
                    read,
                    " read ",
                    first.clone(),
                    without,
                    second.clone(),
                    ", but ",
                    end,
                    " ended with ",
                    second,
                    " there before ",
                    start,
                    " started without ",
                    first
                ]
            }
            (Some(early), None) => {
                core.push(early.writer);
                let before = " before ";
                explained![end, " read ", name(early.element), before, start, " started without it"]
            }
            (None, Some(late)) => {
                core.push(late.writer);
                let after = ", which was there when ";
                explained![start, " did not read ", name(late.element), after, end, " ended, before it started"]
            }
            (None, None) => {
                let place = self.reads.iter().position(|read| read.operation == earlier.start.operation);
                let place = place.unwrap_or_default() as u32;
                let has_more = self.reads.iter().position(|read| read.operation == later.end.operation);
                let until = has_more.unwrap_or_default() as u32;
                let between = self.moments.iter().find(|moment| (place + 1..=until).contains(&moment.first_read));
                core.extend(between.map(|moment| moment.writer));
                let lost = between.map_or_else(|| "an element".into(), |moment| name(moment.element));
                explained![end, " read ", lost, ", but ", start, " started later and did not"]
            }
        };
        let proof = Proof::new(core, text);
        if earlier.moment.is_some() { self.not_older(proof) } else { proof }
    }
}

/// Something that has a place in the order: the moment of an element, or a read of the whole set.
#[derive(Debug, Clone, Copy)]
struct OrderedEvent<'s> {
    start: MomentBound,
    end: MomentBound,
    moment: Option<&'s ElementMoment>,
}

impl<'s> OrderedEvent<'s> {
    fn of_moment(moment: &'s ElementMoment) -> Self {
        Self { start: moment.earliest, end: moment.latest, moment: Some(moment) }
    }

    fn of_read(read: &WholeRead) -> Self {
        let at = |at: i64| MomentBound { at, operation: read.operation };
        Self { start: at(read.start), end: at(read.end), moment: None }
    }
}

/// Proves that an element was found before it can have been there, or missed afterwards.
fn contradiction(moment: &ElementMoment) -> Proof {
    let (there, absent) = (moment.latest.operation, moment.earliest.operation);
    let element = name(moment.element);
    let text = explained![
        element,
        " was there when ",
        operation_name(there),
        " ended, but not yet when ",
        operation_name(absent),
        " started later"
    ];
    Proof::new([there, absent, moment.writer], text)
}

/// Checks each element as a register.
fn by_element(operations: &[SetOperation], settings: Settings) -> Linearizability {
    let mut elements: Vec<u64> = operations.iter().filter_map(SetOperation::element).collect();
    elements.extend(operations.iter().filter_map(SetOperation::elements).flatten());
    elements.sort_unstable();
    elements.dedup();
    let reads = operations.iter().filter(|operation| operation.elements().is_some()).count();
    if reads.saturating_mul(elements.len()) > FINDS {
        return Linearizability::Unknown { why: format!("{reads} reads of a set from which elements are removed") };
    }
    let mut registers = Vec::with_capacity(operations.len());
    let mut places = Vec::with_capacity(operations.len());
    for (place, operation) in operations.iter().enumerate() {
        let mut push = |key: u64, access: Access| {
            let SetOperation { start_ns, end_ns, status, .. } = *operation;
            registers.push(Operation { process: 0, key, start_ns, end_ns, access, status, version: None });
            places.push(place);
        };
        match &operation.access {
            SetAccess::Add { element } => push(*element, Access::Write { value: *element }),
            SetAccess::Remove { element } => push(*element, Access::Delete),
            SetAccess::Find { element, is_present } => {
                push(*element, Access::Read { value: Some(*element).filter(|_| *is_present) });
            }
            SetAccess::Read { elements: present } => {
                let mut present = present.clone();
                present.sort_unstable();
                for &element in &elements {
                    let is_present = present.binary_search(&element).is_ok();
                    push(element, Access::Read { value: Some(element).filter(|_| is_present) });
                }
            }
        }
    }
    let mut undecided = (reads > 0).then(|| "reads of a set from which elements are removed".to_owned());
    let initial = if settings.initial == InitialValue::Seen { InitialValue::Seen } else { InitialValue::Absent };
    for key in check(&registers, Settings { initial, ..settings }) {
        match key.verdict {
            Linearizability::Linearizable => {}
            Linearizability::Unknown { why } => undecided = Some(why),
            Linearizability::Violation(proof) => {
                let core: Vec<usize> = proof.core.iter().map(|&place| places[place]).collect();
                return Linearizability::Violation(Proof::new(
                    core,
                    proof.explanation.renumbered(|place| places[place]),
                ));
            }
        }
    }
    undecided.map_or(Linearizability::Linearizable, |why| Linearizability::Unknown { why })
}

impl SetOperation {
    /// Returns the interval of the effect, or `None` if there was none for certain.
    fn span(&self, clock_error_ns: i64) -> Option<(i64, i64)> {
        effect_interval((self.start_ns, self.end_ns), self.status, clock_error_ns)
    }

    fn element(&self) -> Option<u64> {
        match self.access {
            SetAccess::Add { element } | SetAccess::Remove { element } | SetAccess::Find { element, .. } => {
                Some(element)
            }
            SetAccess::Read { .. } => None,
        }
    }

    /// Returns the elements that a read of the whole set returned.
    fn elements(&self) -> Option<&[u64]> {
        match &self.access {
            SetAccess::Read { elements } if self.status == Status::Applied => Some(elements),
            _ => None,
        }
    }
}
