package datagram

import (
	"math"
	"time"
)

// Throughput returns what TCP would get over a path, in bytes per second: the equation of RFC 5348,
// section 3.1, with b = 1 and t_RTO = 4 R.
func Throughput(size float64, roundTrip time.Duration, p float64) float64 {
	r := roundTrip.Seconds()
	timeout := 4 * r
	return size / (r*math.Sqrt(2*p/3) + timeout*(3*math.Sqrt(3*p/8))*p*(1+32*p*p))
}

// Bounds of the loss event rates that lossOf considers: one in a hundred million, and all.
const (
	leastLoss = 1e-8
	mostLoss  = 1
)

// lossOf is the inverse of Throughput: the loss event rate at which TCP would get so many bytes per second.
func lossOf(rate, size float64, roundTrip time.Duration) float64 {
	low, high := leastLoss, float64(mostLoss)
	for range 64 {
		middle := math.Sqrt(low * high)
		if Throughput(size, roundTrip, middle) > rate {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
