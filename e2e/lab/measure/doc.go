// Package measure turns what an experiment saw into one value, and that value
// into JSON, Markdown and charts.
//
//	Recorder ─▶ Series ─▶ Chart ┐
//	links, programs, flows ─────┼▶ Result ─▶ result.json, README.md, *.svg, *.png
//	Origin (commit, machine) ───┘
package measure
