//! Which spellings of a number keep their value (H23).

/// The most significant digits of a number with a fraction or an exponent: a double is told by at most 17, and senders
/// that always write 17 are common.
const MAX_DIGITS: usize = 17;

/// Why a number would not keep its value, if so. The token is a number as JSON spells it.
pub(super) fn flaw(token: &[u8]) -> Option<&'static str> {
    let Ok(text) = std::str::from_utf8(token) else { return Some("is no number") };
    let Some(end) = text.find(['.', 'e', 'E']) else {
        let fits = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
        return (!fits).then_some("is a whole number beyond 64 bits");
    };
    let mantissa = match text[end..].find(['e', 'E']) {
        Some(exponent) => &text[..end + exponent],
        None => text,
    };
    let digits = significant_digits(mantissa);
    match text.parse::<f64>() {
        Ok(value) if !value.is_finite() => Some("is beyond the range of a double"),
        Ok(0.0) if digits > 0 => Some("is too small for a double"),
        Ok(_) if digits > MAX_DIGITS => Some("has more than 17 significant digits"),
        Ok(_) => None,
        Err(_) => Some("is no number"),
    }
}

/// The digits from the first to the last that is not zero.
fn significant_digits(mantissa: &str) -> usize {
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).skip_while(|&digit| digit == b'0');
    let (mut all, mut significant) = (0, 0);
    for digit in digits {
        all += 1;
        if digit != b'0' {
            significant = all;
        }
    }
    significant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_count_from_the_first_to_the_last_that_is_not_zero() {
        let cases = [("0", 0), ("-0.000", 0), ("100.0", 1), ("0.0010200", 3), ("-12.5", 3)];
        for (mantissa, digits) in cases {
            assert_eq!(significant_digits(mantissa), digits, "{mantissa}");
        }
    }
}
