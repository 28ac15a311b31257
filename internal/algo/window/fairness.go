package window

// Fairness is the index of Jain, Chiu and Hawe: (Σx)² / (n·Σx²). It is 1 if all have the same, 1/n if one of n has all, and 0 if
// nobody has anything.
func Fairness(shares []float64) float64 {
	sum, squares := 0., 0.
	for _, share := range shares {
		sum += share
		squares += share * share
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}
