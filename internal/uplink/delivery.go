package uplink

import (
	"context"
	"errors"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// WatchDelivery calls each with a delivery as it is, and again as it changes, until it
// has ended, or ctx is done. Broken connections and changing leaders are survived.
func (u *Uplink) WatchDelivery(ctx context.Context, id string, each func(*groupv1.Delivery) error) error {
	return watchWhole(ctx, u, "watch delivery",
		func(ctx context.Context) (receiver[*groupv1.WatchDeliveryResponse], error) {
			return groupv1.NewDeliveryServiceClient(u).WatchDelivery(ctx, &groupv1.WatchDeliveryRequest{Delivery: id})
		},
		func(message *groupv1.WatchDeliveryResponse) (ended bool, err error) {
			delivery := message.GetDelivery()
			if delivery == nil {
				return false, nil // a heartbeat
			}
			return delivery.GetState() != groupv1.DeliveryState_DELIVERY_STATE_RUNNING, each(delivery)
		})
}

// watchWhole takes the messages of a watch each of which shows the whole of a thing, over
// broken connections, until take says that the thing has ended.
func watchWhole[M any](ctx context.Context, u *Uplink, what string, open func(context.Context) (receiver[M], error), take func(M) (ended bool, err error)) error {
	err := u.attend(ctx, what, func(ctx context.Context) error {
		stream, err := open(ctx)
		if err != nil {
			return err
		}
		for {
			message, err := stream.Recv()
			if err != nil {
				return err
			}
			ended, err := take(message)
			if err != nil {
				return &callerError{err}
			}
			if ended {
				return &callerError{errEnded}
			}
		}
	})
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// errEnded ends the watch of what has ended.
var errEnded = errors.New("it has ended")
