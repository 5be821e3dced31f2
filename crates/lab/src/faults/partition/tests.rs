//! Tests of the shapes of partitions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn deaf(shape: Shape, count: usize, side: &[usize]) -> Vec<(usize, usize)> {
    shapes::deaf(shape, &Group { count, side: side.to_vec() }).unwrap()
}

#[test]
fn shapes_part_whom_they_should() {
    assert_eq!(deaf(Shape::Halves, 2, &[1]), [(0, 1), (1, 0)]);
    assert_eq!(deaf(Shape::Halves, 3, &[2]), [(0, 2), (1, 2), (2, 0), (2, 1)]);
    let five = [(0, 1), (0, 3), (1, 0), (1, 2), (1, 4), (2, 1), (2, 3), (3, 0), (3, 2), (3, 4), (4, 1), (4, 3)];
    assert_eq!(deaf(Shape::Halves, 5, &[1, 3]), five);

    assert_eq!(deaf(Shape::One, 2, &[1]), [(0, 1), (1, 0)]);
    assert_eq!(deaf(Shape::One, 3, &[0]), [(0, 1), (0, 2), (1, 0), (2, 0)]);
    // All pairs but those of the three that are not hit.
    assert_eq!(deaf(Shape::One, 5, &[1, 3]).len(), 20 - 6);
    assert!(deaf(Shape::One, 5, &[1, 3]).contains(&(1, 3)), "the side's hosts do not hear each other either");

    assert_eq!(deaf(Shape::OneWay, 2, &[0]), [(1, 0)]);
    assert_eq!(deaf(Shape::OneWay, 3, &[0]), [(1, 0), (2, 0)]);
    assert_eq!(deaf(Shape::OneWay, 5, &[1, 3]), [(0, 1), (0, 3), (2, 1), (2, 3), (4, 1), (4, 3)]);

    let ring = [(0, 2), (0, 3), (1, 3), (1, 4), (2, 0), (2, 4), (3, 0), (3, 1), (4, 1), (4, 2)];
    assert_eq!(deaf(Shape::Ring, 5, &[0]), ring);
    assert_eq!(deaf(Shape::Ring, 4, &[0]), [(0, 2), (1, 3), (2, 0), (3, 1)]);
}

#[test]
fn all_but_one_way_are_symmetric() {
    for count in 2..8 {
        for bits in 1_usize..1 << count {
            let side: Vec<usize> = (0..count).filter(|host| bits & 1 << host != 0).collect();
            for shape in [Shape::Halves, Shape::One, Shape::OneWay, Shape::Ring] {
                let Ok(deaf) = shapes::deaf(shape, &Group { count, side: side.clone() }) else { continue };
                let mirrored = deaf.iter().all(|(a, b)| deaf.contains(&(*b, *a)));
                let one_way = deaf.iter().all(|(a, b)| !deaf.contains(&(*b, *a)));
                assert_eq!((mirrored, one_way), (shape != Shape::OneWay, shape == Shape::OneWay), "{shape:?} {side:?}");
                assert!(deaf.iter().all(|(a, b)| a != b && *a < count && *b < count));
            }
        }
    }
}

#[test]
fn what_parts_nobody_is_refused() {
    let refused =
        |shape, count, side: &[usize]| shapes::deaf(shape, &Group { count, side: side.to_vec() }).unwrap_err();
    assert_eq!(refused(Shape::Ring, 3, &[0]), "in a ring of 3 hosts all are neighbours: it takes 4");
    assert!(refused(Shape::Halves, 3, &[0, 1, 2]).contains("on one side"));
    assert!(refused(Shape::OneWay, 2, &[0, 1]).contains("on one side"));
    for shape in [Shape::Halves, Shape::One, Shape::OneWay, Shape::Ring] {
        assert!(refused(shape, 1, &[0]).contains("a single host"));
    }
}

#[test]
fn clients_lose_the_smaller_side() {
    let smaller = |shape, count, side: &[usize]| shapes::smaller(shape, &Group { count, side: side.to_vec() });
    assert_eq!(smaller(Shape::Halves, 5, &[1, 3]), [1, 3]);
    assert_eq!(smaller(Shape::Halves, 5, &[0, 1, 3]), [2, 4]);
    assert_eq!(smaller(Shape::Halves, 2, &[0]), [0]);
    assert_eq!(smaller(Shape::One, 3, &[0, 1]), [0, 1]);
}

#[test]
fn packets_are_dropped_where_they_arrive() {
    let (a, b) = (Ipv4Addr::new(10, 83, 0, 1), Ipv4Addr::new(10, 83, 0, 254));
    assert_eq!(cut(Vec::new(), Vec::new()), None);
    assert_eq!(cut(vec![a], Vec::new()), Some(Control::Cut { from: Some(vec![a]), to: Some(Vec::new()) }));
    assert_eq!(cut(vec![a], vec![b]), Some(Control::Cut { from: Some(vec![a, b]), to: Some(vec![b]) }));
}

#[test]
fn arguments_are_words() {
    let with = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), Value::from(value))]);
    assert_eq!(shape(&BTreeMap::new()), Ok((Shape::Halves, false)));
    assert_eq!(shape(&with("shape", "one_way")), Ok((Shape::OneWay, false)));
    assert_eq!(shape(&with("clients", "majority")), Ok((Shape::Halves, true)));
    assert_eq!(shape(&with("shape", "rings")).unwrap_err()[0].what, "`shape = \"rings\"` is not one of them");
    let both = BTreeMap::from([("shape".to_owned(), "ring".into()), ("clients".to_owned(), "majority".into())]);
    assert_eq!(shape(&both).unwrap_err()[0].argument, Some("clients"));
}
