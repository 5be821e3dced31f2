//! Headers of a recorded request that an experiment has, and those that it leaves out.

/// Kinds of headers that are left out.
const FRAMING: &str = "headers that the engine writes itself";
const TRACING: &str = "tracing headers";
const CONDITIONAL: &str = "conditional headers (If-…)";
const BROWSER: &str = "headers that describe the browser";
const INVALID: &str = "headers that HTTP/1.1 does not allow";

const OF_THE_ENGINE: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const OF_TRACES: [&str; 14] = [
    "b3",
    "baggage",
    "newrelic",
    "postman-token",
    "request-id",
    "sentry-trace",
    "traceparent",
    "tracestate",
    "uber-trace-id",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-newrelic-id",
    "x-request-id",
];
const OF_TRACES_BEGIN: [&str; 3] = ["x-b3-", "x-datadog-", "x-newrelic-"];
const OF_CONDITIONS: [&str; 5] = ["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"];
/// Headers that a browser adds to every request, also in a copied curl command.
const OF_ANY_BROWSER: [&str; 5] = ["dnt", "priority", "save-data", "upgrade-insecure-requests", "x-client-data"];
/// Headers that a user may have chosen, except in a recording of a browser.
const OF_A_RECORDING: [&str; 4] = ["accept-language", "cache-control", "pragma", "user-agent"];

/// Returns the kind under which a header is left out; `None` if the experiment has it. `name` is in
/// lower case. `recorded` is whether a browser wrote the request; `method` is
/// its method.
pub fn left_out_as(name: &str, value: &str, (recorded, method): (bool, &str)) -> Option<&'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    // Pseudo-headers of HTTP/2 begin with a colon.
    if OF_THE_ENGINE.contains(&name) || name.starts_with(':') {
        Some(FRAMING)
    } else if name.is_empty()
        || !name.bytes().all(is_token)
        || value.chars().any(|one| one != '\t' && (one < ' ' || one == '\u{7f}'))
    {
        Some(INVALID)
    } else if OF_TRACES.contains(&name) || OF_TRACES_BEGIN.iter().any(|begin| name.starts_with(begin)) {
        Some(TRACING)
    } else if OF_CONDITIONS.contains(&name) {
        Some(CONDITIONAL)
    } else if name.starts_with("sec-") || OF_ANY_BROWSER.contains(&name) || recorded && OF_A_RECORDING.contains(&name)
        // A server may check the page from which a form is sent.
        || recorded && name == "referer" && matches!(method, "GET" | "HEAD")
    {
        Some(BROWSER)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_recognised() {
        for (name, kind) in [
            ("host", Some(FRAMING)),
            (":authority", Some(FRAMING)),
            ("x-b3-traceid", Some(TRACING)),
            ("if-none-match", Some(CONDITIONAL)),
            ("sec-ch-ua", Some(BROWSER)),
            ("bad name", Some(INVALID)),
            ("accept", None),
            ("user-agent", None),
        ] {
            assert_eq!(left_out_as(name, "v", (false, "GET")), kind, "{name}");
        }
        assert_eq!(left_out_as("user-agent", "v", (true, "GET")), Some(BROWSER));
        assert_eq!(left_out_as("referer", "v", (true, "GET")), Some(BROWSER));
        assert_eq!(left_out_as("referer", "v", (true, "POST")), None);
        assert_eq!(left_out_as("x-a", "a\nb", (false, "GET")), Some(INVALID));
    }
}
