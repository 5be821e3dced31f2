//! The colours that come with a fault, made legible on light and on dark paper. It must not trust them: they come from files.

/// Ink that a colour is replaced by if it is not `#rrggbb`.
const UNKNOWN: [u8; 3] = [0xd5, 0x5e, 0x00];

/// Paper in light and in dark, as in the page's style.
const LIGHT: [u8; 3] = [0xff, 0xff, 0xff];
const DARK: [u8; 3] = [0x16, 0x1b, 0x22];

/// Contrast that lines and areas need: WCAG 2.2, 1.4.11.
const CONTRAST: f64 = 3.0;

/// A colour of the same hue for light paper and one for dark paper, each as `#rrggbb`.
pub fn legible(colour: &str) -> (String, String) {
    let colour = parsed(colour).unwrap_or(UNKNOWN);
    (hex(toward(colour, [0; 3], LIGHT)), hex(toward(colour, [255; 3], DARK)))
}

fn parsed(colour: &str) -> Option<[u8; 3]> {
    let digits = colour.strip_prefix('#')?;
    if digits.len() != 6 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let part = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    Some([part(0)?, part(2)?, part(4)?])
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Mixes in as little of `end` as makes the colour stand out from `paper`.
fn toward(colour: [u8; 3], end: [u8; 3], paper: [u8; 3]) -> [u8; 3] {
    let mixed = |share: f64| -> [u8; 3] {
        std::array::from_fn(|i| (f64::from(colour[i]) * (1.0 - share) + f64::from(end[i]) * share).round() as u8)
    };
    let shares = (0..=20).map(|step| f64::from(step) / 20.0);
    shares.map(mixed).find(|mixed| contrast(*mixed, paper) >= CONTRAST).unwrap_or(end)
}

/// WCAG 2.2, contrast ratio.
fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// WCAG 2.2, relative luminance.
fn luminance(colour: [u8; 3]) -> f64 {
    let [red, green, blue] = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}
