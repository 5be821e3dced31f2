//! How charts are drawn, as SVG: a chart is plain data (panels of lines over one axis), and this room turns it into marks
//! on paper. It must not know what the numbers mean, nor read any record.

pub mod axis;
pub mod bar_rows;
pub mod chart;
pub mod colour;
pub mod legend;
pub mod markup;
pub mod path;
pub mod render;
pub mod scaffold;
pub mod thinning;
pub mod values;

#[cfg(test)]
mod tests;
