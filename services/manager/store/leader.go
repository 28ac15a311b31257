package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// Candidate is a manager that can lead.
type Candidate struct {
	Name    string `json:"name"`
	Address string `json:"address"` // where other managers reach it
	// Version is which build it is, and Started when it began, in Unix seconds by its own clock. A manager that tells neither is of a version
	// in which managers were not missed yet.
	Version string `json:"version,omitempty"`
	Started int64  `json:"started,omitempty"`
	// Member is its host in the managers' own store; empty where it has no part in one.
	Member string `json:"member,omitempty"`
}

// Term is the span in which one manager leads.
type Term struct {
	// Number only grows from term to term.
	Number uint64
	key    string
	ended  <-chan struct{}
	resign func()
	pulse  pulse
}

// Ended is closed when the term is over. It may be over before that is noticed:
// what counts is that Commit refuses.
func (t *Term) Ended() <-chan struct{} { return t.ended }

// Resign ends the term at once, so that another manager need not wait for it to time out.
func (t *Term) Resign() { t.resign() }

func (t *Term) fence() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(t.key), "=", int64(t.Number))
}

// electionKey lies outside of the state that List and Watch show.
const electionKey = "leader/"

// termTimeout is how long a leader that stopped answering keeps others from leading.
const termTimeout = 5 * time.Second

// Campaign waits until this candidate leads.
func (s *Store) Campaign(ctx context.Context, self Candidate) (*Term, error) {
	lease, err := s.client.Grant(ctx, int64(termTimeout.Seconds()))
	if err != nil {
		return nil, translate("campaign", err)
	}
	session, err := concurrency.NewSession(s.client, concurrency.WithLease(lease.ID), concurrency.WithTTL(int(termTimeout.Seconds())))
	if err != nil {
		return nil, translate("campaign", err)
	}
	value, err := json.Marshal(self)
	if err != nil {
		return nil, fmt.Errorf("campaign: %w", err)
	}
	election := concurrency.NewElection(session, prefix+"leader")
	campaignCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a lost lease must end the wait, too
		select {
		case <-session.Done():
			cancel()
		case <-campaignCtx.Done():
		}
	}()
	if err := stand(campaignCtx, election, string(value)); err != nil {
		session.Close()
		if campaignCtx.Err() != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("campaign: %w: it has ended the lease", ErrUnavailable)
		}
		return nil, translate("campaign", err)
	}
	term := &Term{
		Number: uint64(election.Rev()),
		key:    election.Key(),
		ended:  session.Done(),
		resign: func() { session.Close() },
		pulse:  pulse{last: time.Now()},
	}
	go term.feelPulse()
	return term, nil
}

// feelPulse ends the term when this process was stopped for long.
func (t *Term) feelPulse() {
	tick := time.NewTicker(termTimeout / 5)
	defer tick.Stop()
	for t.pulse.beats() {
		select {
		case <-tick.C:
		case <-t.ended:
			return
		}
	}
	t.resign()
}

// pulse shows whether a process has run all the time. A process that was stopped for longer than others wait for it has not heard what happened
// meanwhile, and takes everybody for silent. It must decide nothing by that, not even in the moment before its lease is found to have run out.
type pulse struct {
	mu      sync.Mutex
	last    time.Time
	stopped bool
}

// beats notes that the process runs, and reports whether it has run all the time.
func (p *pulse) beats() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.stopped = p.stopped || now.Sub(p.last) > termTimeout
	p.last = now
	return !p.stopped
}

// stand stands for election until ctx is done. Then it withdraws. That would not end while etcd does not answer, and is waited for no longer
// than for a lease.
func stand(ctx context.Context, election *concurrency.Election, value string) error {
	elected := make(chan error, 1)
	go func() { elected <- election.Campaign(ctx, value) }()
	select {
	case err := <-elected:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-elected:
		return err
	case <-time.After(termTimeout):
		return ctx.Err()
	}
}

// EndEarlierTerms ends what an earlier process of this name still holds: that process is gone, and waiting for its lease to time out would only
// delay. It returns those that were elsewhere: they may run still.
func (s *Store) EndEarlierTerms(ctx context.Context, self Candidate) (elsewhere []Candidate, err error) {
	got, err := s.client.Get(ctx, prefix+electionKey, clientv3.WithPrefix())
	if err != nil {
		return nil, translate("end earlier terms", err)
	}
	for _, kv := range got.Kvs {
		var holder Candidate
		if json.Unmarshal(kv.Value, &holder) != nil || holder.Name != self.Name || kv.Lease == 0 {
			continue
		}
		if holder.Address != self.Address {
			elsewhere = append(elsewhere, holder)
		}
		if _, err := s.client.Revoke(ctx, clientv3.LeaseID(kv.Lease)); err != nil {
			return elsewhere, translate("end earlier terms", err)
		}
	}
	return elsewhere, nil
}

// Leader is the manager that leads, and its term; the zero value stands for nobody.
type Leader struct {
	Candidate
	Term uint64
}

// leaderKnown is how long it is believed who leads: a store that is out of reach tells of no change. A question to the store may take as long.
const leaderKnown = 3 * time.Second

// Leaders calls each with the leader, now and whenever that changes. It fails once the store does not say who leads.
func (s *Store) Leaders(ctx context.Context, each func(Leader)) error {
	for ctx.Err() == nil {
		leader, seen, err := s.leader(ctx)
		if err != nil {
			return err
		}
		each(leader)
		if err := s.awaitChange(ctx, prefix+electionKey, seen, leaderKnown); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// leader returns who leads, and at which revision.
func (s *Store) leader(ctx context.Context) (Leader, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderKnown)
	defer cancel()
	got, err := s.client.Get(ctx, prefix+electionKey, clientv3.WithFirstCreate()...)
	if err != nil {
		return Leader{}, 0, translate("look for the leader", err)
	}
	var leader Leader
	if len(got.Kvs) > 0 && json.Unmarshal(got.Kvs[0].Value, &leader.Candidate) == nil {
		leader.Term = uint64(got.Kvs[0].CreateRevision)
	}
	return leader, got.Header.Revision, nil
}

// awaitChange returns after the first change below the prefix after the revision, or after the time most.
func (s *Store) awaitChange(ctx context.Context, keyPrefix string, after int64, most time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for answer := range s.client.Watch(clientv3.WithRequireLeader(waiting), keyPrefix, clientv3.WithPrefix(), clientv3.WithRev(after+1)) {
		if answer.CompactRevision != 0 {
			return nil // whatever it was, it has changed
		}
		if err := answer.Err(); err != nil && waiting.Err() == nil {
			return translate("watch the leader", err)
		}
		if len(answer.Events) > 0 {
			return nil
		}
	}
	return ctx.Err()
}
