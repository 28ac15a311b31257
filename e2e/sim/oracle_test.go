package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/sdk"
)

// watchNames looks at all final names as often as is affordable: whatever appears there is complete
// and right from the first moment.
func (w *world) watchNames(ctx context.Context) {
	seen := maps.Clone(w.planted)
	for ctx.Err() == nil {
		for _, r := range w.receivers {
			for _, p := range w.deliveries {
				path := filepath.Join(w.into(r.name), p.name)
				now, err := os.Lstat(path)
				if err != nil || seen[path] != nil && os.SameFile(now, seen[path]) {
					continue
				}
				if p.stream {
					w.checkPrefixes(r.name, p.name)
					continue
				}
				seen[path] = now
				w.checkWhole(r.name, p.name)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// checkWhole checks that a member has exactly what was sent, under its final name, if that is the name of a parcel.
func (w *world) checkWhole(member, name string) {
	i := slices.IndexFunc(w.deliveries, func(p parcel) bool { return p.name == name })
	if i < 0 {
		return
	}
	if w.deliveries[i].stream {
		w.checkStream(member, name)
		return
	}
	if err := same(filepath.Join(w.dir, senderHost, name), filepath.Join(w.into(member), name)); err != nil {
		w.Errorf("%s: %v", member, err)
	}
}

// checkStream checks that a member has all of a stream. If it began again, what came before is in a file beside it.
func (w *world) checkStream(member, name string) {
	if sent, got := w.streamed(member, name); !slices.ContainsFunc(got, func(one []byte) bool { return bytes.Equal(one, sent) }) {
		w.Errorf("%s: nowhere is all of the stream %s, of %d bytes", member, name, len(sent))
	}
}

// checkPrefixes checks that what a member has of a stream is the beginning of what was sent. In plaintext it may be
// damaged, which is noticed only at its end.
func (w *world) checkPrefixes(member, name string) {
	if w.mayDamage() {
		return
	}
	sent, got := w.streamed(member, name)
	for _, one := range got {
		if !bytes.HasPrefix(sent, one) {
			w.Errorf("%s: %d bytes are there that are not the beginning of the stream %s", member, len(one), name)
		}
	}
}

// streamed returns what was sent as a stream, and what a member has of it, once for each time that it began.
func (w *world) streamed(member, name string) (sent []byte, got [][]byte) {
	sent, err := os.ReadFile(filepath.Join(w.dir, senderHost, name))
	w.must(err)
	files, err := filepath.Glob(filepath.Join(w.into(member), name+"*"))
	w.must(err)
	for _, file := range files {
		if one, err := os.ReadFile(file); err == nil { // otherwise it has another name by now
			got = append(got, one)
		}
	}
	return sent, got
}

// mayDamage reports whether bytes may be changed on their way without that being noticed at once.
func (w *world) mayDamage() bool {
	return w.policy.DataPlane == sdk.Plaintext && slices.ContainsFunc(w.faults, func(f simnet.Fault) bool { return f.Kind == simnet.Flip })
}

// same compares two files or directories.
func same(want, got string) error {
	wanted, err := contents(want)
	if err != nil {
		return err
	}
	has, err := contents(got)
	if err != nil {
		return err
	}
	for name, content := range wanted {
		if other, there := has[name]; !there || !bytes.Equal(content, other) {
			return fmt.Errorf("%s: %q is there: %t, with %d bytes; want %d bytes", got, name, there, len(other), len(content))
		}
	}
	if len(has) != len(wanted) {
		return fmt.Errorf("%s holds %d entries, want %d", got, len(has), len(wanted))
	}
	return nil
}

// contents returns all files below a path; directories are included without content.
func contents(root string) (map[string][]byte, error) {
	all := make(map[string][]byte)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if entry.IsDir() {
			all[name] = nil
			return nil
		}
		all[name], err = os.ReadFile(path)
		return err
	})
	return all, err
}

// watchVersion checks that the version of a delivery's tree never decreases.
func (w *world) watchVersion(ctx context.Context, id string) {
	var version uint64
	for delivery, err := range w.operator.WatchDelivery(ctx, id) {
		if err != nil {
			return
		}
		if delivery.TreeVersion < version {
			w.Errorf("tree version %d after %d", delivery.TreeVersion, version)
		}
		version = max(version, delivery.TreeVersion)
	}
}

// checkOutcome checks that a delivery has ended in a way that the faults explain.
func (w *world) checkOutcome(p parcel, delivery sdk.Delivery) {
	w.log.Info("outcome", "delivery", delivery.Name, "state", delivery.State, "reason", delivery.Reason, "receipts", fmt.Sprintf("%+v", delivery.Receipts))
	if delivery.State == sdk.DeliveryRunning {
		w.Errorf("delivery %s goes on: %s", p.name, standing(delivery))
		return
	}
	atStart := 0
	for _, r := range w.receivers {
		if p.stream {
			w.checkPrefixes(r.name, p.name)
		}
	}
	for _, receipt := range delivery.Receipts {
		if !receipt.Late {
			atStart++
		}
		switch {
		case receipt.State == sdk.ReceiptComplete:
			w.checkWhole(receipt.Member, p.name)
		case receipt.Late: // the outcome does not wait for it
		case receipt.State == sdk.ReceiptFailed:
			if why := w.unexplained(receipt); why != "" {
				w.Errorf("delivery %s at %s failed: %s (%s): %s", p.name, receipt.Member, receipt.Reason, receipt.Detail, why)
			}
		default:
			w.Errorf("delivery %s at %s is %s", p.name, receipt.Member, receipt.State)
		}
	}
	if atStart != delivery.Members {
		w.Errorf("delivery %s has %d receipts, want %d", p.name, atStart, delivery.Members)
	}
}

func standing(delivery sdk.Delivery) string {
	text := fmt.Sprintf("sealed %t, sent %d of %d, tree %d", delivery.Sealed, delivery.SentBytes, delivery.Length, delivery.TreeVersion)
	for _, r := range delivery.Receipts {
		text += fmt.Sprintf("; %s %s has %d from %s %s", r.Member, r.State, r.Bytes, r.Parent, r.Reason)
	}
	return text
}

// away are the faults that can end a session if they last.
var away = []simnet.Kind{simnet.CutBoth, simnet.CutOne, simnet.SlowDown, simnet.Swallow, simnet.Stop, simnet.Crash, simnet.LosePower, simnet.TurnAway, simnet.Break, simnet.Flip}

// unexplained returns why a member had no reason to fail; nothing if it had.
func (w *world) unexplained(receipt sdk.Receipt) string {
	switch receipt.Reason {
	case "sender_lost":
		if !w.hits(senderHost, managerHost, away...) {
			return "nothing kept the sender from the manager"
		}
	case "deadline":
		if w.deadline == 0 {
			return "there is none"
		}
	case "slow":
		return w.unexplainedSlow()
	case "damaged":
		if !w.mayDamage() {
			return "nothing was damaged"
		}
	case "no_path":
		if len(w.faults) == 0 {
			return "nothing was in the way"
		}
	default:
		return "this cannot be"
	}
	return ""
}

// unexplainedSlow returns why no member had a reason to be too slow; nothing if there was one. Even a member that is as fast
// as all others may fall some bytes behind, or beside others get less than a floor. It does not fall behind by time, except
// where a block takes about as long.
func (w *world) unexplainedSlow() string {
	switch slow := w.policy.SlowMember; {
	case slow.Action != sdk.Evict && slow.FloorBytesPerSecond == 0:
		return "nobody is given up by this policy"
	case slow.Action == sdk.Evict && slow.LagBytes == 0 && len(w.faults) == 0 && !w.isNarrow():
		return "nothing slowed anybody down"
	}
	return ""
}

// checkBalance checks that everything that came to an agent was discarded or is held, and that what
// it holds is within its limit. Deliveries may still be on their way out.
func (w *world) checkBalance() {
	for _, at := range w.nodes() {
		var problem error
		for range 100 {
			if problem = w.balance(at); problem == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if problem != nil {
			w.Error(problem)
		}
	}
}

func (w *world) balance(at place) error {
	metrics, _ := w.metrics.Load(at.name)
	counts := sums(metrics.(*prometheus.Registry))
	if received, gone := counts["received_bytes_total"], counts["discarded_bytes_total"]+counts["cache_held_bytes"]; received != gone {
		return fmt.Errorf("%s received %v bytes; discarded and held are %v", at.name, received, gone)
	}
	if counts["cache_reserved_bytes"] > float64(at.cache) {
		w.Errorf("%s has taken %v bytes of its cache, whose limit is %d", at.name, counts["cache_reserved_bytes"], at.cache)
	}
	return nil
}

// checkLinks checks that, once all have ended, the two ends of each link say the same, and returns how many
// bytes came. In plaintext a damaged header can make other bytes count as payload.
func (w *world) checkLinks() (bytes uint64) {
	if err := w.book.Check(func(string, string) bool { return w.mayDamage() }); err != nil {
		w.Error(err)
	}
	return w.book.Carried()
}

// checkEnded checks that an agent that has ended holds nothing of what came.
func (w *world) checkEnded(name string, metrics *prometheus.Registry) {
	counts := sums(metrics)
	if counts["received_bytes_total"] != counts["discarded_bytes_total"] {
		w.Errorf("%s ended: %v bytes were received and %v discarded", name, counts["received_bytes_total"], counts["discarded_bytes_total"])
	}
	if counts["cache_reserved_bytes"] != 0 {
		w.Errorf("%s ended: %v bytes of its cache are never given back", name, counts["cache_reserved_bytes"])
	}
}

// sums returns an agent's metrics, with the prefix of their names removed.
func sums(metrics *prometheus.Registry) map[string]float64 {
	sums := make(map[string]float64)
	families, _ := metrics.Gather()
	for _, family := range families {
		for _, m := range family.GetMetric() {
			sums[family.GetName()[len("groupcast_agent_"):]] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sums
}

// isSessionOver reports whether an error says that the sender's session has ended.
func isSessionOver(err error) bool {
	var ended *sdk.SessionEnded
	var failed *sdk.Error
	return errors.As(err, &ended) || errors.As(err, &failed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
