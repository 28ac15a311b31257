package replicator_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// anew is the network interface by which a host is on its LAN in the tests that take it away and make another by its name, as is done to
// bonds, VLANs and cards that are pulled.
const anew = "anew0"

// first is the last byte of its address at first.
const first = 77

// makeAnew makes it, with an address beside that of the host.
func (b *bench) makeAnew(host *lab.Host, last byte) {
	b.t.Helper()
	if err := host.Do(func() error {
		under, err := net.InterfaceByName(b.place(host).Interface)
		if err != nil {
			return err
		}
		addresses, err := under.Addrs()
		if err != nil {
			return err
		}
		own := addresses[0].(*net.IPNet)
		own.IP = append(own.IP.To4()[:3:3], last)
		device := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: anew, ParentIndex: under.Index}, Mode: netlink.MACVLAN_MODE_BRIDGE}
		if err := netlink.LinkAdd(device); err != nil {
			return err
		}
		// The interface below it would answer for its address, too, and what came there would not have come to this one.
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0); err != nil {
			return err
		}
		if err := netlink.AddrAdd(device, &netlink.Addr{IPNet: own}); err != nil {
			return err
		}
		return netlink.LinkSetUp(device)
	}); err != nil {
		b.t.Error(err)
	}
}

// takeAnew takes it away.
func (b *bench) takeAnew(host *lab.Host) {
	if err := host.Do(func() error {
		device, err := netlink.LinkByName(anew)
		if err != nil {
			return err
		}
		return netlink.LinkDel(device)
	}); err != nil {
		b.t.Error(err)
	}
}

// An interface that is made anew by its name, of a receiver or of the sender, is listened and sent to as before: also where it has
// another address at the receiver, which is the same receiver all the same: the sender does not wait for what it was before.
func TestInterfaceIsMadeAnew(t *testing.T) {
	for name, c := range map[string]struct {
		isSenders bool
		then      byte // last of the address that it has then
		receivers int
	}{
		"receiver": {false, first, 2}, "receiver, another address": {false, first + 1, 2}, "sender": {true, first, 2},
		"the only receiver": {false, first, 1}, "the only receiver, another address": {false, first + 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, c.receivers, lanShape)
			b.file(6_000_000)
			host := b.receivers[0]
			if c.isSenders {
				host = b.sender
			}
			b.makeAnew(host, first)
			receipts := b.receiveAll(t.Context(), func(r *receive.Config) {
				r.Patience = 0
				if r.Name == host.Name() {
					r.Place.Interface = anew
				}
			})
			source, err := send.OpenObject(t.Context(), b.path)
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			var changing sync.WaitGroup
			taken := &failing{Object: source, after: 2_000_000, then: sync.OnceFunc(func() {
				b.takeAnew(host)
				changing.Go(func() {
					time.Sleep(2 * time.Second) // of a network that is started again
					b.makeAnew(host, c.then)
				})
			})}
			result, err := b.sendFrom(t.Context(), taken, func(s *send.Config) {
				s.Ceiling = 1_000_000
				if c.isSenders {
					s.Place.Interface = anew
				}
			})
			b.wantComplete(result, err, receipts...)
			b.wantCopies(0, c.receivers-1)
			if len(result.Members) != c.receivers {
				t.Errorf("receipts %+v", result.Members)
			}
			changing.Wait()
		})
	}
}

// A sender whose interface was made anew hears others with its key as before: one that starts later ends.
func TestInterfaceIsMadeAnewOfTwoSenders(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(6_000_000)
	other := b.beside(1_500_000)
	b.makeAnew(b.sender, first)
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	taken := &failing{Object: source, after: 1_000_000, then: sync.OnceFunc(func() {
		b.takeAnew(b.sender)
		b.makeAnew(b.sender, first)
	})}
	goesOn := make(chan struct{})
	goOn := closing(goesOn)
	b.told = func(p send.Progress) {
		if p.Sent > 3_000_000 {
			goOn()
		}
	}
	ctx := limited(t)
	done := b.sendAside(ctx, func(c *send.Config) { c.Ceiling, c.Place.Interface, c.Source = 1_000_000, anew, taken })
	receipts := b.receiveAll(ctx)
	<-goesOn
	later := <-other.sendAside(ctx, func(c *send.Config) { c.Receivers, c.Wait = 0, 0 })
	if rival := new(send.RivalError); !errors.As(later.err, &rival) || rival.Length != 6_000_000 || later.took > soon {
		t.Errorf("the one that starts later ends after %v with %v", later.took, later.err)
	}
	result := <-done
	b.wantComplete(result.Result, result.err, receipts...)
	b.wantCopies(0)
}

// fullThen is a disk that has no room, which is said once something else has happened.
type fullThen struct {
	receive.Landing
	before func()
}

func (f *fullThen) Write([]byte) (int, error) {
	f.before()
	return 0, noroom.Err
}

// A replica that fails while its interface is made anew has failed: it does not begin again to fail for the same reason.
func TestInterfaceIsMadeAnewWhileItFails(t *testing.T) {
	b := onLAN(t, 1, lanShape)
	b.file(1_500_000)
	host := b.receivers[0]
	b.makeAnew(host, first)
	var changing sync.WaitGroup
	change := sync.OnceFunc(func() {
		b.takeAnew(host)
		changing.Go(func() { b.makeAnew(host, first+1) })
	})
	opened := 0
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) {
		c.Patience, c.Place.Interface = 0, anew
		land := c.Open
		c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			opened++
			landing, err := land(ctx, info)
			return &fullThen{landing, change}, err
		}
	})
	ctx, end := context.WithCancel(t.Context())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = b.send(ctx) // it loses its receiver
	}()
	if r := <-receipts[0]; !errors.Is(r.err, noroom.Err) || opened != 1 {
		t.Errorf("it was begun %d times: %v", opened, r.err)
	}
	end()
	<-sent
	changing.Wait()
}
