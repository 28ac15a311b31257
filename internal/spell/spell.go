// Package spell finds what somebody may have meant, and says what is wrong in a text.
package spell

import (
	"math"
	"strings"
)

// Nearest returns the candidate with the smallest edit distance to name.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", math.MaxInt
	for _, candidate := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// Alike returns the nearest candidate if it is similar enough to name to have been meant, else nothing.
func Alike(name string, candidates []string) string {
	nearest := Nearest(name, candidates)
	if 2*distance(strings.ToLower(name), strings.ToLower(nearest)) > max(len(name), len(nearest)) {
		return ""
	}
	return nearest
}

// DidYouMean returns a question whether something was meant; empty if meant is.
func DidYouMean(meant string) string {
	if meant == "" {
		return ""
	}
	return ": did you mean " + meant + "?"
}

// distance counts the insertions, deletions and replacements between a and b, and the swaps of neighbouring letters (optimal
// string alignment).
func distance(a, b string) int {
	var beforeLast []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], beforeLast[j-1]+1)
			}
		}
		beforeLast, last = last, row
	}
	return last[len(b)]
}
