package gather

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
)

// isName reports whether a gatherer is named by its name, and not by an address.
func isName(gatherer string) bool { return !strings.Contains(gatherer, ":") }

func checkGatherer(gatherer string) error {
	_, _, err := net.SplitHostPort(gatherer)
	if isName(gatherer) {
		err = identity.CheckName(gatherer)
	}
	if err != nil {
		return &sdk.Error{Code: sdk.InvalidArgument, Message: fmt.Sprintf("gatherer %q is neither host:port, as in gather.example:7420, nor a name, as in groupcast gatherer list", gatherer)}
	}
	return nil
}

// finding asks the managers where a gatherer is, and has later calls dial it there.
type finding func(ctx context.Context) error

// connect returns a connection to a gatherer and, if it was found by its name, a function that finds it again: it may move.
func connect(ctx context.Context, up *uplink.Uplink, gatherer string, opts ...grpc.DialOption) (*grpc.ClientConn, finding, error) {
	if !isName(gatherer) {
		conn, err := up.Gatherer(gatherer, opts...)
		return conn, nil, err
	}
	addresses, err := addressesOf(ctx, up, gatherer)
	if err != nil {
		return nil, nil, err
	}
	named, err := up.GathererNamed(gatherer, addresses, opts...)
	if err != nil {
		return nil, nil, err
	}
	return named.ClientConn, func(ctx context.Context) error {
		addresses, err := addressesOf(ctx, up, gatherer)
		if err == nil {
			named.Move(addresses)
		}
		return err
	}, nil
}

// addressesOf asks the managers where a gatherer is. One that they do not hear of may be back by the time that it is dialled.
func addressesOf(ctx context.Context, up *uplink.Uplink, gatherer string) ([]string, error) {
	answer, err := gatherv1.NewGathererServiceClient(up).GetGatherer(ctx, &gatherv1.GetGathererRequest{Name: gatherer})
	if err != nil {
		return nil, fmt.Errorf("find gatherer: %w", sdk.Reported(err))
	}
	return answer.GetGatherer().GetAddresses(), nil
}

const (
	// movedPatience is how long a gatherer that was found by its name must not have been reached before the managers are asked again
	// where it is.
	movedPatience = 10 * time.Second
	// findTime is how long they may take to answer. After that the client tries again where the gatherer was.
	findTime = 5 * time.Second
)

// findAgain asks the managers where the gatherer is if it was not reached for long, and again after as long. It returns since when it
// was not reached, or when the managers were asked.
func (c *Client) findAgain(since time.Time, why error) time.Time {
	switch {
	case c.find == nil || sdk.CodeOf(sdk.Reported(why)) != sdk.Unavailable:
		return time.Time{}
	case since.IsZero():
		return time.Now()
	case time.Since(since) < movedPatience:
		return since
	}
	ctx, cancel := context.WithTimeout(c.life, findTime)
	defer cancel()
	if err := c.find(ctx); err != nil {
		c.options.Log.Debug("it is not known whether the gatherer was moved", "error", err)
	}
	return time.Now()
}
