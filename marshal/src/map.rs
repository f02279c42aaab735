//! The map of a layout, as `Display` draws it.

use core::fmt;

use crate::layout::Layout;
use crate::spec::Content;

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TITLES: [&str; 7] = ["column", "element", "align", "len", "offset", "bytes", "padding"];
        let rows: Vec<[String; 7]> = self
            .columns()
            .iter()
            .map(|c| {
                let numbers = [c.alignment, c.len, c.offset, c.size_bytes, c.padding];
                let [alignment, len, offset, bytes, padding] = numbers.map(|n| n.to_string());
                let name = c.part.map_or_else(|| c.name.to_owned(), |part| format!("{}.{part}", c.name));
                [name, short_type_name(c.element), alignment, len, offset, bytes, padding]
            })
            .collect();
        let mut widths = TITLES.map(str::len);
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut line = |row: [&str; 7]| {
            let [column, element, numbers @ ..] = row;
            let [w0, w1, number_widths @ ..] = widths;
            write!(f, "{column:w0$}  {element:w1$}")?;
            for (number, width) in numbers.into_iter().zip(number_widths) {
                write!(f, "  {number:>width$}")?;
            }
            writeln!(f)
        };
        line(TITLES)?;
        for row in &rows {
            line(row.each_ref().map(String::as_str))?;
        }
        write!(f, "total {} bytes, alignment {}", self.size_bytes(), self.alignment())?;
        if self.bounds().has_scratch() {
            let zeroed = self.bounds().range(Content::Zeroed);
            write!(f, ", {} copied, {} zeroed", self.copy_bytes(), zeroed.end - zeroed.start)?;
        }
        writeln!(f)
    }
}

/// `half::binary16::f16` as `f16`, inside generics and arrays too.
fn short_type_name(full: &str) -> String {
    let mut short = String::with_capacity(full.len());
    let mut segment = 0;
    for c in full.chars() {
        short.push(c);
        if short.ends_with("::") {
            short.truncate(segment);
        } else if !(c.is_alphanumeric() || c == '_' || c == ':') {
            segment = short.len();
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_type_names_lose_their_paths_and_keep_their_structure() {
        for (full, short) in [
            ("u64", "u64"),
            ("half::binary16::f16", "f16"),
            ("[a::b::C; 3]", "[C; 3]"),
            (
                "core::option::Option<marshal::pointer::DevicePointer<half::binary16::f16>>",
                "Option<DevicePointer<f16>>",
            ),
        ] {
            assert_eq!(short_type_name(full), short);
        }
    }
}
