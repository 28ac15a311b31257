package cli

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// Members that get nothing of a stream in datagrams while more is sent are named, once, and so are those that get something again. Members
// that miss a few, or to which all came too late, are not, and nobody is while nothing is sent.
func TestWhoGetsNoDatagramsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&app{stderr: &out})
		p.lastLine = time.Now().Add(time.Hour) // how far it is, is not looked at
		d := sdk.Delivery{ID: "0123456789", InDatagrams: true, Kind: sdk.Stream}
		for _, name := range []string{"m1", "m2", "m3", "m4", "m5", "m6"} {
			d.Receipts = append(d.Receipts, sdk.Receipt{Member: name, State: sdk.ReceiptReceiving, Datagrams: new(sdk.DatagramCounts)})
		}
		pass := func(seconds int, sent uint64, served ...string) (said string) {
			out.Reset()
			for range seconds {
				d.Receipts = slices.Clone(d.Receipts)
				d.SentBytes += sent
				for i, r := range d.Receipts {
					switch {
					case slices.Contains(served, r.Member):
						d.Receipts[i].Bytes += sent
					case r.Member == "m6":
						d.Receipts[i].Datagrams = &sdk.DatagramCounts{Late: r.Datagrams.Late + 1}
					}
				}
				p.show(d)
				p.show(d) // something else has changed
				time.Sleep(time.Second)
			}
			return out.String()
		}
		all := []string{"m1", "m2", "m3", "m4", "m5"}
		pass(3, 1000, all...)
		begun := time.Now().Local().Format(time.TimeOnly)
		for _, step := range []struct {
			what, said, want string
		}{
			{"some get nothing for a while", pass(9, 1000, "m1"), ""},
			{"and for longer", pass(20, 1000, "m1"), "of what is sent since " + begun + " nothing comes to m2, m3, m4 and 1 more\n"},
			{"two of them get it again", pass(20, 1000, "m1", "m2", "m3"), "datagrams come again to m2, m3\n"},
			{"the sender pauses", pass(60, 0), ""},
			{"there is a little now and then", pass(1, 1000, "m1", "m2", "m3") + pass(20, 0) + pass(3, 1000, "m1", "m3"), ""},
		} {
			if step.said != step.want {
				t.Errorf("%s: it says %q, want %q", step.what, step.said, step.want)
			}
		}
		d.InDatagrams = false
		if said := pass(30, 1000); said != "" {
			t.Errorf("of a stream of bytes it says %q", said)
		}
	})
}
