package uplink

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

const (
	// callFor is how long a manager is called again at most, whatever the deadline: managers know a request that comes again for an hour.
	callFor = 10 * time.Minute
	// callBriefly takes its place for a call without a deadline, whose caller is to learn some time what is in the way, and for gatherers:
	// their clients try again themselves, and say meanwhile what it is.
	callBriefly = 8 * time.Second
	// firstPause and longestPause are about how long to wait before a call is made again.
	firstPause   = 500 * time.Millisecond
	longestPause = 2 * time.Second
)

// callAgain returns an interceptor that makes a call again which could not be carried out for the moment, for as long as its time lasts, but
// no longer than most: that another manager leads can take long. It is safe: a repeated change has one effect by its request_id, an enrolment
// by its certificate request, and all other calls may be made twice. When time is over, the error is what was in the way. What must be done
// however long it takes is called again after that: the SDK's seals and receipts, and a pod's enrolment.
func callAgain(most time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		end := time.Now().Add(callBriefly)
		if _, isBounded := ctx.Deadline(); isBounded {
			end = time.Now().Add(most)
		}
		var inTheWay error
		for pause := firstPause; ; pause = min(2*pause, longestPause) {
			err := invoke(ctx, method, request, answer, connection, opts...)
			switch {
			case err != nil && inTheWay != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && Reason(err) == "":
				return inTheWay // this attempt alone was not waited for
			case !passes(err) || time.Now().After(end):
				return err
			}
			inTheWay = err
			if !sleep(ctx, pause) {
				if errors.Is(ctx.Err(), context.Canceled) {
					return status.FromContextError(ctx.Err()).Err()
				}
				return err
			}
		}
	}
}

// passes reports whether a call is worth making again as it is.
func passes(err error) bool {
	return status.Code(err) == codes.Unavailable || Reason(err) == "CONTENTION"
}

// methodName names a method as gRPC's configuration of calls does.
type methodName struct {
	Service string `json:"service"`
	Method  string `json:"method"`
}

// streams are those that gRPC itself opens again for a moment, until there is a first answer. A gatherer's session is not among them: its
// client attaches again itself, and says meanwhile what is in the way.
func streams() (all []methodName) {
	for _, service := range []grpc.ServiceDesc{
		groupv1.GroupService_ServiceDesc, groupv1.SessionService_ServiceDesc, groupv1.DeliveryService_ServiceDesc, groupv1.IdentityService_ServiceDesc,
		agentv1.AgentService_ServiceDesc, gatherv1.GatherService_ServiceDesc, gatherv1.GathererService_ServiceDesc,
		replicav1.ReplicationService_ServiceDesc, replicav1.ReplicatorService_ServiceDesc,
	} {
		for _, stream := range service.Streams {
			if stream.StreamName != "Attach" {
				all = append(all, methodName{service.ServiceName, stream.StreamName})
			}
		}
	}
	return all
}

// callPolicy has calls go to the managers by turns, and streams opened again.
func callPolicy() string {
	type policy map[string]any
	encoded, err := json.Marshal(policy{
		"loadBalancingConfig": []policy{{"round_robin": policy{}}},
		"methodConfig": []policy{{
			"name": streams(),
			"retryPolicy": policy{
				"maxAttempts": 5, "initialBackoff": "0.5s", "maxBackoff": "4s", "backoffMultiplier": 2,
				"retryableStatusCodes": []string{"UNAVAILABLE"},
			},
		}},
	})
	if err != nil {
		panic("uplink: " + err.Error())
	}
	return string(encoded)
}
