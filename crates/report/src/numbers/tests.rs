//! Tests of how numbers are written.

use super::*;

#[test]
fn three_significant_digits_and_grouped_thousands() {
    let cases = [
        (0.0, "0"),
        (63_412.0, "63,400"),
        (999.6, "1,000"),
        (99_950.0, "100,000"),
        (2.305, "2.31"),
        (2.0, "2"),
        (0.012_345, "0.0123"),
        (100.0, "100"),
        (120.0, "120"),
        (-5.25, "−5.25"),
        (f64::NAN, NONE),
    ];
    for (value, text) in cases {
        assert_eq!(number(value), text, "{value}");
    }
}

#[test]
fn times_choose_their_unit_after_rounding() {
    let cases = [
        (0.0, "0 s"),
        (1.2e-8, "12 ns"),
        (0.000_85, "850 µs"),
        (0.000_999_9, "1 ms"),
        (0.0123, "12.3 ms"),
        (0.999_9, "1 s"),
        (10.0, "10 s"),
        (180.0, "3 min"),
        (260.4, "4 min 20 s"),
        (7_230.0, "2 h"),
    ];
    for (value, text) in cases {
        assert_eq!(seconds(value), text, "{value}");
    }
    assert_eq!(micros(2_310.0), "2.31 ms");
    assert_eq!(moment(90.0), "90 s");
    assert_eq!(moment(-0.25), "-0.25 s");
}

#[test]
fn counts_bytes_and_ticks() {
    assert_eq!(count(11_234_567), "11,234,567");
    assert_eq!(count_in_words(9_999_999), "9,999,999");
    assert_eq!(count_in_words(11_234_567), "11.2 million");
    assert_eq!(count_in_words(2_500_000_000), "2.5 billion");
    assert_eq!(median_count(0.5), "0.5");
    assert_eq!(median_count(24_674.5), "24,675");
    assert_eq!(median_count_in_words(11_234_567.5), "11.2 million");
    assert_eq!(share(999_999, 1_000_000), "> 99.9 %");
    assert_eq!(share(3, 3), "100 %");
    assert_eq!(share(1, 8), "12.5 %");
    assert_eq!(bytes(5_120_000.0), "5.12 MB");
    assert_eq!(bytes(999.9), "1 kB");
    assert_eq!([change(-17.84), change(1.2), change(0.001)], ["−17.8 %", "+1.2 %", "0 %"]);
    assert_eq!(tick(20_000.0), "20k");
    assert_eq!(tick(0.2), "0.2");
    assert_eq!(or_none(None, count), NONE);
    assert_eq!(from_to("1.1 ms", "2 ms"), "1.1–2 ms");
    assert_eq!(from_to("900 µs", "2 ms"), "900 µs–2 ms");
    assert_eq!(from_to("5/s", "6/s"), "5–6/s");
    assert_eq!(from_to("−0.2", "0.1"), "−0.2 to 0.1");
    assert_eq!(by_metric("retained(throughput.operations_per_s, a, load.agents, 64)", 0.93), "0.93");
    assert_eq!(by_metric("peak_ratio(a, b)", 2.0), "2");
    assert_eq!(by_metric("peak(a)", 2.0), "2/s");
    assert_eq!(from_to("5", "6"), "5–6");
}

#[test]
fn energy_and_money_have_their_units() {
    assert_eq!([joules(0.000_85), joules(0.188), joules(12.0), joules(0.0)], ["850 µJ", "188 mJ", "12 J", "0 µJ"]);
    assert_eq!(joules(3.6e6), "3.6 MJ");
    assert_eq!([money(0.023_77, "EUR"), money(1_234.5, "EUR"), money(5.0, "")], ["EUR 0.0238", "EUR 1,230", "5"]);
}

#[test]
fn a_metric_brings_its_unit() {
    assert_eq!(by_metric("throughput.operations_per_s", 13_000.0), "13,000/s");
    assert_eq!(by_metric("latency_us.p99", 15_000.0), "15 ms");
    assert_eq!(by_metric("faults.oops.outage.memory_released_bytes", 5e6), "5 MB");
    assert_eq!(by_metric("faults.oops.outage.back_to_baseline_s", 0.12), "120 ms");
    assert_eq!(by_metric("failed_pct", 0.5), "0.5 %");
    assert_eq!(by_metric("outcomes.failed", 1_234.0), "1,234");
    assert_eq!(by_metric("cost.joules_per_cycle", 0.1524), "152 mJ");
    assert_eq!(by_metric("cost.with_warmup.watts", 12.71), "12.7 W");
    assert_eq!(by_metric("cost.price_per_million_cycles", 0.02377), "0.0238");
    assert_eq!(by_metric("ratio(cost.joules_per_cycle, a, b)", 1.5), "1.5");
    assert_eq!(by_metric("ratio(latency_us.p99, a, b)", 1.5), "1.5");
}
