package chart

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Kind is how a chart draws its series.
type Kind string

// The kinds of charts.
const (
	Lines   Kind = "lines"   // points joined
	Marks   Kind = "marks"   // points joined and marked: few of them
	Steps   Kind = "steps"   // cumulative frequencies
	Columns Kind = "columns" // a group of columns for each category
)

// Chart is one figure.
type Chart struct {
	File       string   `json:"file"` // without extension
	Title      string   `json:"title"`
	Kind       Kind     `json:"kind"`
	X          Axis     `json:"x"`
	Y          Axis     `json:"y"`
	Categories []string `json:"categories,omitempty"` // for columns
	Series     []Series `json:"series"`
}

// Axis is a label and a range; an empty range is fitted to the data.
type Axis struct {
	Label string  `json:"label"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
}

// palette has colours that people who see fewer colours can tell apart.
var palette = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
	color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
	color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
	color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
	color.RGBA{R: 0x33, G: 0x33, B: 0x33, A: 0xff},
}

var dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}}

const (
	width       = 17 * vg.Centimeter
	height      = 9 * vg.Centimeter
	legendWidth = 4.8 * vg.Centimeter // at the right, where it hides nothing
)

// Save draws the chart to a file; the extension gives the format: .svg or .png.
func (c Chart) Save(path string) error {
	p := plot.New()
	p.Title.Text = c.Title
	p.X.Label.Text, p.Y.Label.Text = c.X.Label, c.Y.Label
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{}, ticks{}
	p.BackgroundColor = color.White
	p.Add(plotter.NewGrid())
	if err := c.draw(p); err != nil {
		return err
	}
	if c.Kind == Steps {
		p.X.Min = 0
	}
	limit(&p.X, c.X)
	limit(&p.Y, c.Y)
	return save(p, path)
}

// save draws the plot at the left and its legend at the right.
func save(p *plot.Plot, path string) error {
	canvas, err := draw.NewFormattedCanvas(width, height, strings.TrimPrefix(filepath.Ext(path), "."))
	if err != nil {
		return err
	}
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Path())
	legend := p.Legend
	legend.Top, legend.Left, legend.YOffs = true, true, -vg.Centimeter
	legend.Draw(draw.Crop(whole, width-legendWidth+0.3*vg.Centimeter, 0, 0, 0))
	p.Legend = plot.NewLegend()
	p.Draw(draw.Crop(whole, 0.2*vg.Centimeter, -legendWidth, 0.1*vg.Centimeter, -0.2*vg.Centimeter))

	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

// ticks are the usual ticks, with labels as short as possible.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(low, high float64) []plot.Tick {
	marks := plot.DefaultTicks{}.Ticks(low, high)
	for i, mark := range marks {
		if mark.Label != "" {
			marks[i].Label = strconv.FormatFloat(mark.Value, 'g', 4, 64)
		}
	}
	return marks
}

func limit(axis *plot.Axis, wanted Axis) {
	if wanted.Min < wanted.Max {
		axis.Min, axis.Max = wanted.Min, wanted.Max
	}
}

func (c Chart) draw(p *plot.Plot) error {
	if len(c.Series) == 0 {
		return errors.New("a chart without series")
	}
	if c.Kind == Columns {
		return c.drawColumns(p)
	}
	for i, series := range c.Series {
		if err := c.drawLine(p, i, series); err != nil {
			return fmt.Errorf("series %s: %w", series.Name, err)
		}
	}
	return nil
}

func (c Chart) drawLine(p *plot.Plot, number int, series Series) error {
	line, points, err := plotter.NewLinePoints(coordinates(series))
	if err != nil {
		return err
	}
	line.Color = palette[number%len(palette)]
	line.Width = vg.Points(1.3)
	line.Dashes = dashes[number/len(palette)%len(dashes)]
	switch c.Kind {
	case Steps:
		line.StepStyle = plotter.PreStep
	case Marks:
		points.Color = line.Color
		points.Shape = draw.CircleGlyph{}
		p.Add(points)
	}
	p.Add(line)
	p.Legend.Add(series.Name, line)
	return nil
}

func coordinates(series Series) plotter.XYs {
	xys := make(plotter.XYs, len(series.Points))
	for i, point := range series.Points {
		xys[i] = plotter.XY{X: point.X, Y: point.Y}
	}
	return xys
}

func (c Chart) drawColumns(p *plot.Plot) error {
	breadth := vg.Points(48) / vg.Length(len(c.Series))
	for i, series := range c.Series {
		values := make(plotter.Values, len(series.Points))
		for j, point := range series.Points {
			values[j] = point.Y
		}
		bars, err := plotter.NewBarChart(values, breadth)
		if err != nil {
			return fmt.Errorf("series %s: %w", series.Name, err)
		}
		bars.Color = palette[i%len(palette)]
		bars.LineStyle.Width = 0
		bars.Offset = breadth * (vg.Length(i) - vg.Length(len(c.Series)-1)/2)
		p.Add(bars)
		p.Legend.Add(series.Name, bars)
	}
	p.NominalX(c.Categories...)
	return nil
}
