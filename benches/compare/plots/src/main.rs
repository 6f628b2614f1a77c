//! Draws every `*.chart` file of a folder as an SVG beside it.
//!
//! usage: `plots DIR`. A chart is lines of fields between tabs: `title TEXT`, `x LABEL`, `y LABEL`, `ticks N=TEXT…` (the x axis's labels, placed at
//! the numbers N) and one `series NAME X,Y…` per line to draw. The y axis is logarithmic. Other first fields are errors.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use plotters::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Default)]
struct Chart {
    title: String,
    x: String,
    y: String,
    ticks: Vec<(f64, String)>,
    series: Vec<(String, Vec<(f64, f64)>)>,
}

const SIZE: (u32, u32) = (960, 560);
const COLOURS: [RGBColor; 10] = [
    RGBColor(214, 39, 40), // ours, which is always first
    RGBColor(31, 119, 180),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
    RGBColor(188, 189, 34),
    RGBColor(23, 190, 207),
];

fn main() -> Result<()> {
    let dir = env::args_os().nth(1).ok_or("usage: plots DIR")?;
    let mut paths: Vec<_> = fs::read_dir(&dir)?.map(|entry| entry.map(|e| e.path())).collect::<std::result::Result<_, _>>()?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "chart"));
    paths.sort();
    for path in paths {
        let draw_one = || draw(&parse(&fs::read_to_string(&path)?)?, &path.with_extension("svg"));
        draw_one().map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

fn parse(text: &str) -> Result<Chart> {
    let mut chart = Chart::default();
    for line in text.lines() {
        let mut fields = line.split('\t');
        let (what, mut rest) = (fields.next().unwrap_or_default(), fields);
        let mut one = || rest.next().map(str::to_owned).ok_or_else(|| format!("nothing behind {what:?}"));
        match what {
            "title" => chart.title = one()?,
            "x" => chart.x = one()?,
            "y" => chart.y = one()?,
            "ticks" => chart.ticks = rest.map(tick).collect::<Result<_>>()?,
            "series" => {
                let name = one()?;
                chart.series.push((name, rest.map(point).collect::<Result<_>>()?));
            }
            _ => return Err(format!("unknown line {line:?}").into()),
        }
    }
    Ok(chart)
}

fn tick(field: &str) -> Result<(f64, String)> {
    let (at, text) = field.split_once('=').ok_or("a tick is N=TEXT")?;
    Ok((at.parse()?, text.to_owned()))
}

fn point(field: &str) -> Result<(f64, f64)> {
    let (x, y) = field.split_once(',').ok_or("a point is X,Y")?;
    Ok((x.parse()?, y.parse()?))
}

fn draw(chart: &Chart, path: &Path) -> Result<()> {
    let points = || chart.series.iter().flat_map(|(_, points)| points);
    let (x_min, x_max) = points().map(|p| p.0).fold((f64::MAX, f64::MIN), |(lo, hi), v| (lo.min(v), hi.max(v)));
    let (y_min, y_max) = points().map(|p| p.1).fold((f64::MAX, f64::MIN), |(lo, hi), v| (lo.min(v), hi.max(v)));
    if x_min > x_max {
        return Err("a chart without points".into());
    }
    let margin = ((x_max - x_min) * 0.04).max(0.1);
    let legend = ((x_max - x_min) * 0.2).max(0.5); // room beside the lines
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut area = ChartBuilder::on(&root)
        .caption(&chart.title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(84)
        .build_cartesian_2d(x_min - margin..x_max + margin + legend, (y_min * 0.7..y_max * 1.5).log_scale())?;
    area.configure_mesh()
        .x_desc(&chart.x)
        .y_desc(&chart.y)
        .axis_desc_style(("sans-serif", 15))
        .label_style(("sans-serif", 13))
        .disable_x_mesh()
        .x_labels(0) // the axis is not a plain scale: the labels are drawn below
        .y_label_formatter(&|v| short(*v))
        .light_line_style(WHITE)
        .draw()?;
    for (at, text) in &chart.ticks {
        let (px, py) = area.backend_coord(&(*at, y_min * 0.7));
        root.draw(&PathElement::new(vec![(px, py), (px, py + 5)], BLACK))?;
        let style = ("sans-serif", 13).into_text_style(&root).pos(text_anchor());
        root.draw(&Text::new(text.as_str(), (px, py + 9), style))?;
    }
    for (i, (name, points)) in chart.series.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let style = colour.stroke_width(if i == 0 { 3 } else { 2 });
        area.draw_series(LineSeries::new(points.iter().copied(), style).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
    }
    area.configure_series_labels()
        .position(SeriesLabelPosition::MiddleRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 13))
        .draw()?;
    root.present()?;
    Ok(())
}

/// Centred below its point.
fn text_anchor() -> plotters::style::text_anchor::Pos {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    Pos::new(HPos::Center, VPos::Top)
}

/// 1500000 as 1.5 M.
fn short(v: f64) -> String {
    let (scaled, unit) = match v {
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e3 => (v / 1e3, " k"),
        v => (v, ""),
    };
    let text = if scaled >= 10.0 { format!("{scaled:.0}") } else { format!("{scaled:.2}") };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    text + unit
}
