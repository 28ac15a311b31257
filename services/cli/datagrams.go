package cli

import (
	"fmt"
	"slices"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/sdk"
)

// parity is how --parity is written: 10+2 is two datagrams of parity for every ten.
type parity struct{ data, shards int }

func (p *parity) String() string {
	if *p == (parity{}) {
		return ""
	}
	return fmt.Sprintf("%d+%d", p.data, p.shards)
}

func (p *parity) Set(text string) error {
	var read parity
	n, err := fmt.Sscanf(text, "%d+%d", &read.data, &read.shards)
	if err != nil || n != 2 || read.String() != text || read.data < 1 || read.shards < 1 {
		return fmt.Errorf("want DATA+PARITY, as 10+2: got %q", text)
	}
	*p = read
	return nil
}

func (p *parity) Type() string { return "data+parity" }

// datagramCounts are the SDK's counts in the API's JSON form.
type datagramCounts struct {
	Received   uint64 `json:"received,string"`
	Recovered  uint64 `json:"recovered,string"`
	Late       uint64 `json:"late,string"`
	Lost       uint64 `json:"lost,string"`
	Duplicated uint64 `json:"duplicated,string"`
	Reordered  uint64 `json:"reordered,string"`
}

// datagramColumns show receipts of a stream in datagrams.
var datagramColumns = slices.Concat(receiptColumns[:3], []column[sdk.Receipt]{
	counted("RECEIVED", func(c sdk.DatagramCounts) uint64 { return c.Received }),
	counted("RECOVERED", func(c sdk.DatagramCounts) uint64 { return c.Recovered }),
	counted("LATE", func(c sdk.DatagramCounts) uint64 { return c.Late }),
	counted("LOST", func(c sdk.DatagramCounts) uint64 { return c.Lost }),
	counted("DUPLICATED", func(c sdk.DatagramCounts) uint64 { return c.Duplicated }),
	counted("REORDERED", func(c sdk.DatagramCounts) uint64 { return c.Reordered }),
}, receiptColumns[5:])

func counted(title string, of func(sdk.DatagramCounts) uint64) column[sdk.Receipt] {
	return column[sdk.Receipt]{title: title, cell: func(r sdk.Receipt) string {
		if r.Datagrams == nil {
			return ""
		}
		return fmt.Sprint(of(*r.Datagrams))
	}}
}

// datagramLinkColumns show what links carried of a stream in datagrams.
var datagramLinkColumns = slices.Concat(linkColumns, []column[sdk.LinkUse]{
	used("SENT", func(u sdk.DatagramUse) string { return fmt.Sprint(u.Sent) }),
	used("HELD", func(u sdk.DatagramUse) string { return fmt.Sprint(u.Held) }),
	used("LOST", func(u sdk.DatagramUse) string { return fmt.Sprint(u.Lost) }),
	used("ALLOWED", func(u sdk.DatagramUse) string { return bytesize.Short(u.AllowedBytesPerSecond) + "/s" }),
	used("BREAKER", breaker),
})

func used(title string, of func(sdk.DatagramUse) string) column[sdk.LinkUse] {
	return column[sdk.LinkUse]{title: title, cell: func(l sdk.LinkUse) string {
		if l.Datagrams == nil {
			return ""
		}
		return of(*l.Datagrams)
	}}
}

func breaker(u sdk.DatagramUse) string {
	switch {
	case u.Stopped:
		return fmt.Sprintf("open, %d trips", u.Trips)
	case u.Trips > 0:
		return fmt.Sprintf("%d trips", u.Trips)
	}
	return "closed"
}

// datagramSummary says how a stream in datagrams went.
func datagramSummary(d sdk.Delivery) string {
	text := fmt.Sprintf("stream %s of %s (%s) is %s", shortID(d), d.Name, deliverySize(d), deliveryState(d))
	if !d.Sealed {
		return text
	}
	return text + fmt.Sprintf(": %d datagrams; %s", d.Datagrams, whoDid(d, "say what came of them"))
}

// cameOf says how much a member got of a stream in datagrams.
func cameOf(c sdk.DatagramCounts) string {
	return fmt.Sprintf("%d datagrams (%d of them recovered); %d were late, %d lost, %d duplicated, %d out of order",
		c.Received, c.Recovered, c.Late, c.Lost, c.Duplicated, c.Reordered)
}
