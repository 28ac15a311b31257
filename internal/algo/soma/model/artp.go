package model

import (
	"math"
	"time"
)

// Feedback is n clients of one LAN that compete for sending an ACK, each after a time
// uniform between 0 and Max (§III-D).
type Feedback struct {
	Clients int
	Max     time.Duration // ARTP_max, which the equations call k
}

// MostSummed is for how many clients MeanSum can be computed.
const MostSummed = 40

// MeanSum is equation (8): the mean of the least of all clients' times, as the sum that it
// comes from. Its terms alternate and grow so fast that float64 is good for MostSummed
// clients.
func (f Feedback) MeanSum() time.Duration {
	sum := 0.0
	for i := 1; i <= f.Clients; i++ {
		sum += alternating(i) * float64(i) / float64(i+1) * binomial(f.Clients, i)
	}
	return time.Duration(math.Round(float64(f.Max) * sum))
}

// Mean is equation (9): the same mean, (1 − n/(n+1))·ARTP_max.
func (f Feedback) Mean() time.Duration {
	return time.Duration(math.Round(float64(f.Max) * (1 - float64(f.Clients)/float64(f.Clients+1))))
}

// Distribution is equation (6): the probability that an ACK has been sent by then.
func (f Feedback) Distribution(by time.Duration) float64 {
	share, sum := float64(by)/float64(f.Max), 0.0
	for i := 1; i <= f.Clients; i++ {
		sum += alternating(i) * binomial(f.Clients, i) * math.Pow(share, float64(i))
	}
	return sum
}

// Density is equation (7), the derivative of (6), per second.
func (f Feedback) Density(at time.Duration) float64 {
	share, sum := float64(at)/float64(f.Max), 0.0
	for i := 1; i <= f.Clients; i++ {
		sum += alternating(i) * float64(i) * binomial(f.Clients, i) * math.Pow(share, float64(i-1))
	}
	return sum / f.Max.Seconds()
}

// alternating is (−1)^(i+1).
func alternating(i int) float64 {
	if i%2 == 0 {
		return -1
	}
	return 1
}

func binomial(n, k int) float64 {
	product := 1.0
	for i := 1; i <= k; i++ {
		product = product * float64(n-k+i) / float64(i)
	}
	return product
}
