package gather

import (
	"context"
	"errors"
	"fmt"
	"slices"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// dial opens a data connection at one of the gatherer's addresses.
func (u *upload) dial(ctx context.Context, answer *gatherv1.OpenUploadResponse, hello relay.Hello) (conn *link.Conn, welcome relay.Welcome, err error) {
	peer := identity.ID{Role: identity.Gatherer, Name: answer.GetGatherer()}
	err = u.client.dialEach(ctx, answer.GetAddresses(), func(address string) error {
		conn, welcome, err = link.Dial(ctx, u.client.dialer, address, u.client.uplink.Security(), peer, hello)
		return err
	})
	return conn, welcome, err
}

// dialEach dials one address after the other until the gatherer answers: some may not be reached from here. What it refuses at one of
// them it would refuse at all.
func (c *Client) dialEach(ctx context.Context, addresses []string, dial func(address string) error) error {
	failed := errors.New("the gatherer has no data port")
	for i, address := range c.reachedFirst(addresses) {
		err := dial(address)
		var refused *relay.Refusal
		isRefused := errors.As(err, &refused)
		if err == nil || isRefused {
			c.reach(address)
		}
		if err == nil {
			return nil
		}
		err = fmt.Errorf("the gatherer's data port at %s: %w", address, err)
		switch {
		case isRefused:
			return err
		case i == 0:
			failed = err
		default:
			failed = fmt.Errorf("%w; %w", failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// reachedFirst returns addresses in the order in which they are dialled: the one at which the gatherer answered last in this session comes
// first, as one that is not reached takes seconds each time.
func (c *Client) reachedFirst(addresses []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(addresses, c.reached) {
		return addresses
	}
	others := slices.DeleteFunc(slices.Clone(addresses), func(one string) bool { return one == c.reached })
	return append([]string{c.reached}, others...)
}

func (c *Client) reach(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached = address
}
