// Package moment tells the soonest and the latest of several times.
package moment

import "time"

// Soonest returns the soonest of several times; zero stands for never.
func Soonest(times ...time.Time) (soonest time.Time) {
	for _, at := range times {
		if soonest.IsZero() || !at.IsZero() && at.Before(soonest) {
			soonest = at
		}
	}
	return soonest
}

// Latest returns the latest of several times; zero stands for long ago.
func Latest(times ...time.Time) (latest time.Time) {
	for _, at := range times {
		if at.After(latest) {
			latest = at
		}
	}
	return latest
}
