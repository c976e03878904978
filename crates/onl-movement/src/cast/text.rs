//! Numbers as text and back.

use super::number::CastTo;
use onl_tensor::Bool;

/// A number as text and back.
pub(super) trait Text: Sized {
    fn text(self) -> String;
    fn parse_text(text: &str) -> Option<Self>;
}

macro_rules! float_text {
    ($($t:ty),*) => {$(
        impl Text for $t {
            fn text(self) -> String {
                if self.is_nan() { "nan".to_owned() } else { self.to_string() }
            }
            fn parse_text(text: &str) -> Option<Self> { text.parse().ok() }
        }
    )*};
}
float_text!(f32, f64);

macro_rules! integer_text {
    ($($t:ty),*) => {$(
        impl Text for $t {
            fn text(self) -> String { self.to_string() }
            fn parse_text(text: &str) -> Option<Self> {
                match text.parse::<i128>() {
                    Ok(value) => Some(value.clamp(<$t>::MIN.into(), <$t>::MAX.into()) as $t),
                    Err(_) => text.parse::<f64>().ok().map(|value| value as $t),
                }
            }
        }
    )*};
}
integer_text!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Text for Bool {
    fn text(self) -> String {
        if self.0 != 0 { "True" } else { "False" }.to_owned()
    }
    fn parse_text(text: &str) -> Option<Self> {
        match text {
            _ if text.eq_ignore_ascii_case("true") => Some(Bool(1)),
            _ if text.eq_ignore_ascii_case("false") => Some(Bool(0)),
            _ => text.parse::<f64>().ok().map(CastTo::<Bool>::cast_to),
        }
    }
}
