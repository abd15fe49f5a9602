//! Tables as text.

/// The length of lines: that of a terminal of the usual width.
const WIDTH: usize = 80;

/// The text of each row, in lines of at most [`WIDTH`] characters: first columns of text to the left, then numbers to the right. A row whose text leaves
/// too little for its numbers takes two lines, so that no name is shortened and the numbers stay below their headings.
pub(super) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|column| width(rows, column)).collect();
    let first_number = (1..columns).find(|column| is_number(rows, *column)).unwrap_or(columns);
    let of_numbers: usize = widths.iter().skip(first_number).map(|width| width + 2).sum();
    let names: Vec<String> = rows.iter().map(|row| name(&row[..first_number], &widths)).collect();
    let fits = |name: &String| name.chars().count() + of_numbers <= WIDTH;
    let widest = names.iter().filter(|name| fits(name)).map(|name| name.chars().count()).max().unwrap_or(0);
    let mut texts = Vec::new();
    for (row, name) in rows.iter().zip(&names) {
        let mut text = String::new();
        let number = |(cell, width): (&String, &usize)| format!("  {}{cell}", " ".repeat(width - cell.chars().count()));
        let numbers: String = row.iter().zip(&widths).skip(first_number).map(number).collect();
        let (first, name) = if fits(name) { ("", name.as_str()) } else { (name.as_str(), "") };
        if !first.is_empty() {
            text.push_str(first);
            text.push('\n');
        }
        let space = " ".repeat(widest - name.chars().count());
        text.push_str(format!("{name}{space}{numbers}").trim_end());
        text.push('\n');
        texts.push(text);
    }
    texts
}

fn width(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
}

/// Whether a column has only numbers below its heading. One without rows has text.
fn is_number(rows: &[Vec<String>], column: usize) -> bool {
    rows.len() > 1
        && rows.iter().skip(1).all(|row| row[column].starts_with(|first: char| "$+-0123456789".contains(first)))
}

/// The columns of text of a row.
fn name(cells: &[String], widths: &[usize]) -> String {
    let cell = |(cell, width): (&String, &usize)| format!("{cell}{}", " ".repeat(width - cell.chars().count()));
    cells.iter().zip(widths).map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: &[[&str; 4]]) -> Vec<Vec<String>> {
        cells.iter().map(|row| row.map(str::to_owned).to_vec()).collect()
    }

    #[test]
    fn names_are_to_the_left_and_numbers_to_the_right() {
        let text = aligned(&rows(&[["TYPE", "ZONE", "HOURS", "DOLLARS"], ["m5.large", "us-east-1a", "1.0", "$10.00"]]))
            .concat();
        assert_eq!(text, "TYPE      ZONE        HOURS  DOLLARS\nm5.large  us-east-1a    1.0   $10.00\n");
    }

    #[test]
    fn a_long_name_has_a_line_of_its_own_and_nothing_is_shortened() {
        let (long, longer) = ("a".repeat(60), "b".repeat(200));
        let text = aligned(&rows(&[
            ["CONTROLLER", "", "DOLLARS", "SHARE"],
            ["web", "", "$1.0000", "10.0%"],
            [&long, "", "$1.0000", "20.0%"],
            [&longer, "", "$1.0000", "70.0%"],
        ]))
        .concat();
        let expected = format!(
            "{:long$}  DOLLARS  SHARE\n{:long$}  $1.0000  10.0%\n{}  $1.0000  20.0%\n{longer}\n{:long$}  $1.0000  70.0%\n",
            "CONTROLLER",
            "web",
            long,
            "",
            long = 60
        );
        assert_eq!(text.replace("    ", "  "), expected.replace("    ", "  "));
        assert!(text.lines().all(|line| line.len() <= WIDTH || line == longer), "{text}");
    }
}
