package gather

import (
	"context"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
)

// isName tells a gatherer's name from an address.
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

// connect returns a connection to a gatherer.
func connect(ctx context.Context, up *uplink.Uplink, gatherer string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	if !isName(gatherer) {
		return up.Gatherer(gatherer, opts...)
	}
	answer, err := gatherv1.NewGathererServiceClient(up).GetGatherer(ctx, &gatherv1.GetGathererRequest{Name: gatherer})
	if err != nil {
		return nil, fmt.Errorf("find gatherer: %w", sdk.Reported(err))
	}
	// One that is not heard of may be back by the time that it is dialled.
	return up.GathererNamed(gatherer, answer.GetGatherer().GetAddresses(), opts...)
}
