package chart

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// Point is one pair of values. In JSON it is [x, y], to five digits.
type Point struct{ X, Y float64 }

// MarshalJSON implements json.Marshaler.
func (p Point) MarshalJSON() ([]byte, error) {
	text := append(appendShort([]byte{'['}, p.X), ',')
	return append(appendShort(text, p.Y), ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Point) UnmarshalJSON(text []byte) error {
	var pair [2]float64
	err := json.Unmarshal(text, &pair)
	p.X, p.Y = pair[0], pair[1]
	return err
}

func appendShort(text []byte, value float64) []byte {
	if value == math.Trunc(value) && math.Abs(value) < 1e15 {
		return strconv.AppendInt(text, int64(value), 10)
	}
	return strconv.AppendFloat(text, value, 'g', 5, 64)
}

// Series is a named line of points.
type Series struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

// Slope turns a growing total over time into its rate: each point is the mean rate since the point before, times scale.
func (s Series) Slope(scale float64) Series {
	slope := Series{Name: s.Name}
	for i := 1; i < len(s.Points); i++ {
		before, now := s.Points[i-1], s.Points[i]
		if now.X > before.X {
			slope.Points = append(slope.Points, Point{X: now.X, Y: scale * (now.Y - before.Y) / (now.X - before.X)})
		}
	}
	return slope
}

// Between keeps the points with from ≤ x ≤ until.
func (s Series) Between(from, until float64) Series {
	kept := Series{Name: s.Name}
	for _, p := range s.Points {
		if p.X >= from && p.X <= until {
			kept.Points = append(kept.Points, p)
		}
	}
	return kept
}

// Mean is the mean of the values.
func (s Series) Mean() float64 {
	if len(s.Points) == 0 {
		return 0
	}
	sum := 0.0
	for _, p := range s.Points {
		sum += p.Y
	}
	return sum / float64(len(s.Points))
}

// Distribution returns the cumulative relative frequency of values; it starts at 0.
func Distribution(name string, values []float64) Series {
	s := Series{Name: name}
	for i, value := range slices.Sorted(slices.Values(values)) {
		if i == 0 {
			s.Points = append(s.Points, Point{X: value, Y: 0})
		}
		s.Points = append(s.Points, Point{X: value, Y: float64(i+1) / float64(len(values))})
	}
	return s
}

// Median returns the middle value, or the mean of the two in the middle.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Quantile returns the value below which this share of the values lies, with interpolation between neighbours.
func Quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	place := share * float64(len(sorted)-1)
	low := int(place)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (place-float64(low))*(sorted[high]-sorted[low])
}
