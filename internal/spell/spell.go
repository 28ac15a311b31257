// Package spell finds what somebody may have meant, and says what is wrong with it.
package spell

import "strings"

// Nearest returns the candidate with the smallest edit distance to name.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", int(^uint(0)>>1)
	for _, candidate := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// Alike returns the nearest candidate if it is spelled so much like name that it may have been meant, or else nothing.
func Alike(name string, candidates []string) string {
	nearest := Nearest(name, candidates)
	if 2*distance(strings.ToLower(name), strings.ToLower(nearest)) > max(len(name), len(nearest)) {
		return ""
	}
	return nearest
}

// DidYouMean asks whether something was meant; it is empty if that is.
func DidYouMean(meant string) string {
	if meant == "" {
		return ""
	}
	return ": did you mean " + meant + "?"
}

// distance counts the insertions, deletions and replacements between a and b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
