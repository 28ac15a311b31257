package measure

import "github.com/groupcast/groupcast/internal/chart"

// Charts and what they are drawn from; see package chart.
type (
	Chart  = chart.Chart
	Axis   = chart.Axis
	Kind   = chart.Kind
	Series = chart.Series
	Point  = chart.Point
)

// The kinds of charts.
const (
	Lines   = chart.Lines
	Marks   = chart.Marks
	Steps   = chart.Steps
	Columns = chart.Columns
)

// Distribution is the cumulative relative frequency of values; it starts at 0.
func Distribution(name string, values []float64) Series { return chart.Distribution(name, values) }

// Median is the middle value, or the mean of the two in the middle.
func Median(values []float64) float64 { return chart.Median(values) }

// Quantile is the value below which this share of the values lies, between
// neighbours by proportion.
func Quantile(values []float64, share float64) float64 { return chart.Quantile(values, share) }
