// Package chart draws figures: lines, marks, steps and columns, as SVG or PNG.
package chart
