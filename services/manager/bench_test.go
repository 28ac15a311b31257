package manager_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// connections returns that many connections of their own.
func connections(b *testing.B, p *managertest.Process, n int) []*uplink.Uplink {
	b.Helper()
	all := make([]*uplink.Uplink, n)
	for i := range all {
		all[i] = managertest.Dial(b, mustRead(b, p.Access))
	}
	return all
}

func startProcess(b *testing.B) *managertest.Process {
	b.Helper()
	p := managertest.NewProcess(b, b.TempDir())
	p.Start(b)
	p.WaitServing(b)
	if _, err := p.Client(b).CreateGroup(b.Context(), "g", sdk.Policy{}); err != nil {
		b.Fatal(err)
	}
	return p
}

// residentMiB returns the memory that a process holds.
func residentMiB(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	b.Fatalf("no VmRSS in %q", text)
	return 0
}

// 10,000 members of one group join and send heartbeats. Reported: the time until
// the last one's first heartbeat was answered, and the manager's memory after 20 s
// of heartbeats. Goal: under 10 s and under 300 MiB, on 2 cores that the load
// generator shares.
func BenchmarkTenThousandMembers(b *testing.B) {
	const members, links, heartbeats = 10000, 64, 20 * time.Second
	for b.Loop() {
		p := startProcess(b)
		links := connections(b, p, links)
		ctx, cancel := context.WithCancel(b.Context())
		start := time.Now()
		var attached, ended sync.WaitGroup
		for i := range members {
			attached.Add(1)
			ended.Go(func() { attend(ctx, b, links[i%len(links)], fmt.Sprintf("m-%d", i), &attached) })
		}
		attached.Wait()
		b.ReportMetric(time.Since(start).Seconds(), "s-to-all-attached")
		time.Sleep(heartbeats)
		b.ReportMetric(residentMiB(b, p.PID()), "MiB-resident")
		b.ReportMetric(float64(peakMemory(b, p.PID()))/(1<<20), "MiB-peak")
		group, err := p.Client(b).Group(b.Context(), "g")
		if err != nil || group.Members != members {
			b.Errorf("%d members after the heartbeats (%v), want %d", group.Members, err, members)
		}
		cancel()
		ended.Wait()
		p.Kill()
	}
}

// attend joins a member and keeps its session until ctx is done.
func attend(ctx context.Context, b *testing.B, link *uplink.Uplink, name string, attached *sync.WaitGroup) {
	first := sync.OnceFunc(attached.Done)
	defer first()
	sessions := groupv1.NewSessionServiceClient(link)
	joined, err := sessions.Join(ctx, &groupv1.JoinRequest{Group: "g", Name: name, Node: "node-" + name, Addresses: []string{"10.0.0.1:7410"}})
	if err != nil {
		b.Error(err)
		return
	}
	stream, err := sessions.KeepSession(ctx)
	if err != nil {
		b.Error(err)
		return
	}
	beat := time.NewTicker(joined.GetHeartbeatInterval().AsDuration())
	defer beat.Stop()
	for ctx.Err() == nil {
		message := &groupv1.KeepSessionRequest{Group: "g", Name: name, Incarnation: joined.GetMember().GetIncarnation()}
		if stream.Send(message) != nil {
			return
		}
		answer, err := stream.Recv()
		if err != nil {
			return
		}
		if answer.GetState() != groupv1.MemberState_MEMBER_STATE_ACTIVE {
			b.Errorf("%s is %v", name, answer.GetState())
			return
		}
		first()
		select {
		case <-ctx.Done():
		case <-beat.C:
		}
	}
}

// 100 members join per second while 256 watchers look on. Reported: how long after
// a join was asked for a watcher saw it. Goal: 99 of 100 within 1 s.
func BenchmarkJoinSeenByWatchers(b *testing.B) {
	const watchers, rate, joins = 256, 100, 1500
	for b.Loop() {
		p := startProcess(b)
		links := connections(b, p, 32)
		ctx, cancel := context.WithCancel(b.Context())
		asked := make([]time.Time, joins)
		delays := make([][]time.Duration, watchers)
		var watching, looking sync.WaitGroup
		for w := range watchers {
			looking.Add(1)
			watching.Go(func() { delays[w] = look(ctx, b, links[w%len(links)], asked, &looking) })
		}
		looking.Wait()
		sessions := groupv1.NewSessionServiceClient(links[0])
		pace := time.NewTicker(time.Second / rate)
		var joining sync.WaitGroup
		for i := range joins {
			<-pace.C
			asked[i] = time.Now()
			joining.Go(func() {
				if _, err := sessions.Join(ctx, &groupv1.JoinRequest{Group: "g", Name: fmt.Sprintf("m-%d", i)}); err != nil {
					b.Error(err)
				}
			})
		}
		pace.Stop()
		joining.Wait()
		watching.Wait()
		cancel()
		all := slices.Sorted(slices.Values(slices.Concat(delays...)))
		if len(all) != watchers*joins {
			b.Fatalf("%d joins were seen, want %d", len(all), watchers*joins)
		}
		b.ReportMetric(all[len(all)/2].Seconds()*1000, "ms-p50")
		b.ReportMetric(all[len(all)*99/100].Seconds()*1000, "ms-p99")
		b.ReportMetric(all[len(all)-1].Seconds()*1000, "ms-max")
		p.Kill()
	}
}

// look watches until it has seen all joins, and returns how long each took.
func look(ctx context.Context, b *testing.B, link *uplink.Uplink, asked []time.Time, looking *sync.WaitGroup) (delays []time.Duration) {
	stream, err := groupv1.NewSessionServiceClient(link).WatchMembers(ctx, &groupv1.WatchMembersRequest{Group: "g"})
	if err == nil {
		_, err = stream.Recv() // the snapshot
	}
	looking.Done()
	for err == nil && len(delays) < len(asked) {
		var message *groupv1.WatchMembersResponse
		if message, err = stream.Recv(); err != nil {
			break
		}
		now := time.Now()
		for _, change := range message.GetChanges() {
			var i int
			if _, scanErr := fmt.Sscanf(change.GetMember().GetName(), "m-%d", &i); scanErr != nil || change.GetType() != groupv1.ChangeType_CHANGE_TYPE_ADDED {
				continue
			}
			delays = append(delays, now.Sub(asked[i]))
		}
	}
	if err != nil {
		b.Error(err)
	}
	return delays
}
