//! Accepted, sent and final over time, as an SVG that needs nothing else.

use std::fmt::Write as _;

use super::history::History;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 44.0;
/// More are not seen.
const POINTS: usize = 400;

pub(super) fn draw(title: &str, begun_ms: u64, history: &History) -> String {
    let lines = [
        ("accepted", "#4c78a8", &history.accepted_ms),
        ("sent", "#f58518", &history.sent_ms),
        ("final", "#54a24b", &history.final_ms),
    ];
    let end = lines.iter().filter_map(|(_, _, times)| times.last()).max().copied().unwrap_or(begun_ms + 1);
    let seconds = ((end.saturating_sub(begun_ms)) as f64 / 1_000.0).max(0.001);
    let most = lines.iter().map(|(_, _, times)| times.len()).max().unwrap_or(0).max(1) as f64;
    let x = |s: f64| LEFT + s / seconds * (WIDTH - LEFT - RIGHT);
    let y = |n: f64| HEIGHT - BOTTOM - n / most * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\" fill=\"#222222\">{title}</text>\n"
    );
    // Writing into a string cannot fail.
    for part in 0..=4 {
        let share = f64::from(part) / 4.0;
        let (at_x, at_y) = (x(seconds * share), y(most * share));
        writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at_y:.1}\" y2=\"{at_y:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555555\">{:.0}</text>\
             <text x=\"{at_x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555555\">{:.1} s</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at_y + 4.0,
            most * share,
            HEIGHT - BOTTOM + 18.0,
            seconds * share,
        )
        .ok();
    }
    for (n, (name, colour, times)) in lines.iter().enumerate() {
        let legend = LEFT + 110.0 * n as f64;
        let points: Vec<String> = points(times)
            .map(|(at, count)| {
                let s = at.saturating_sub(begun_ms) as f64 / 1_000.0;
                format!("{:.1},{:.1}", x(s), y(count as f64))
            })
            .collect();
        writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{:.1},{:.1} {}\"/>\
             <rect x=\"{legend}\" y=\"28\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"38\" fill=\"#222222\">{name}</text>",
            x(0.0),
            y(0.0),
            points.join(" "),
            legend + 18.0,
        )
        .ok();
    }
    svg.push_str("</svg>\n");
    svg
}

/// Some of the sorted times, each with how many there were by then; the last always.
fn points(times: &[u64]) -> impl Iterator<Item = (u64, usize)> {
    let step = times.len().div_ceil(POINTS).max(1);
    let some = times.iter().copied().enumerate().skip(step - 1).step_by(step).map(|(n, at)| (at, n + 1));
    some.chain(times.last().map(|at| (*at, times.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_point_is_the_last_transaction() {
        let times: Vec<u64> = (0..1_001).collect();
        let points: Vec<_> = points(&times).collect();
        assert!(points.len() <= POINTS + 1);
        assert_eq!(points.last(), Some(&(1_000, 1_001)));
        assert!(points.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }
}
