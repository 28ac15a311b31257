package datagram

import (
	"encoding/binary"
	"fmt"
)

// ReportSize is the length of a report, in bytes.
const ReportSize = 56

// Certain is a loss event rate of one, in billionths.
const Certain = 1_000_000_000

// Report is what a child tells its parent about the datagrams that came: the content of a feedback
// packet of RFC 5348, section 3.2.2, and how many came and did not in all.
type Report struct {
	Number         uint64 // of the last datagram that came
	Departure      uint64 // of that datagram, as it said
	HeldFor        uint64 // microseconds from when it came until this was written
	Received       uint64 // datagrams, over the link's life
	Lost           uint64
	BytesPerSecond uint64 // received of late
	LossEventRate  uint64 // in billionths
}

// Append writes the report.
func (r Report) Append(to []byte) []byte {
	for _, field := range []uint64{r.Number, r.Departure, r.HeldFor, r.Received, r.Lost, r.BytesPerSecond, r.LossEventRate} {
		to = binary.BigEndian.AppendUint64(to, field)
	}
	return to
}

// ParseReport reads a report.
func ParseReport(from []byte) (Report, error) {
	if len(from) != ReportSize {
		return Report{}, fmt.Errorf("%w: report of %d bytes", ErrProtocol, len(from))
	}
	field := func(i int) uint64 { return binary.BigEndian.Uint64(from[8*i:]) }
	r := Report{
		Number: field(0), Departure: field(1), HeldFor: field(2), Received: field(3), Lost: field(4),
		BytesPerSecond: field(5), LossEventRate: field(6),
	}
	if r.LossEventRate > Certain {
		return Report{}, fmt.Errorf("%w: a loss event rate of %d billionths", ErrProtocol, r.LossEventRate)
	}
	return r, nil
}
