package uplink

import (
	"context"
	"time"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
)

// GathererFenced says that another process registered as the same gatherer.
type GathererFenced struct{ State gatherv1.GathererState }

func (e *GathererFenced) Error() string {
	return "registration ended: another process registered as the same gatherer, with the same credentials"
}

// RegisterGatherer registers a gatherer and reports for it until ctx is done; then the gatherer
// says goodbye. If a newer incarnation of it has registered, RegisterGatherer returns
// *GathererFenced.
func (u *Uplink) RegisterGatherer(ctx context.Context, registration *gatherv1.GathererRegistration, report func() *gatherv1.GathererReport) error {
	var incarnation uint64
	err := u.attendWith(ctx, "register gatherer", reattachSoon, func(ctx context.Context) error {
		stream, err := gatherv1.NewGathererServiceClient(u).Control(ctx)
		if err != nil {
			return err
		}
		registration.Incarnation = incarnation
		first, every := true, reportInterval
		return exchange(ctx, stream, talk[*gatherv1.ControlRequest, *gatherv1.ControlResponse]{
			every: func() time.Duration { return every },
			next: func() *gatherv1.ControlRequest {
				if first {
					first = false
					return registering(registration)
				}
				return &gatherv1.ControlRequest{Message: &gatherv1.ControlRequest_Report{Report: report()}}
			},
			take: func(answer *gatherv1.ControlResponse) error {
				switch answer.GetState() {
				case gatherv1.GathererState_GATHERER_STATE_ONLINE:
				case gatherv1.GathererState_GATHERER_STATE_OFFLINE:
					incarnation = 0 // the managers have forgotten this incarnation
					return errGivenUp
				default:
					return &GathererFenced{answer.GetState()}
				}
				incarnation = answer.GetIncarnation()
				if interval := answer.GetReportInterval().AsDuration(); interval > 0 {
					every = interval
				}
				u.learnTime(answer.GetManagerTime())
				return nil
			},
		})
	})
	if ctx.Err() != nil && incarnation != 0 {
		registration.Incarnation = incarnation
		u.takeLeave(registration)
	}
	return err
}

func registering(registration *gatherv1.GathererRegistration) *gatherv1.ControlRequest {
	return &gatherv1.ControlRequest{Message: &gatherv1.ControlRequest_Registration{Registration: registration}}
}

// takeLeave tells the manager that the gatherer stops. It is a courtesy: without it the gatherer counts as offline after a while.
func (u *Uplink) takeLeave(registration *gatherv1.GathererRegistration) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := gatherv1.NewGathererServiceClient(u).Control(ctx)
	if err != nil {
		return
	}
	goodbye := &gatherv1.ControlRequest{Message: &gatherv1.ControlRequest_Report{Report: &gatherv1.GathererReport{Goodbye: true}}}
	for _, message := range []*gatherv1.ControlRequest{registering(registration), goodbye} {
		if stream.Send(message) != nil {
			return
		}
	}
	for err == nil {
		_, err = stream.Recv()
	}
}
