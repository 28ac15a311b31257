package sdk

import (
	"context"
	"errors"
	"fmt"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/printable"
)

// fail ends the delivery with a reason on this side.
func (o *Outgoing) fail(ctx context.Context, reason string, cause error) {
	o.seal(ctx, &groupv1.SealDeliveryRequest{Reason: reason, Detail: printable.OneLine(cause.Error())})
}

// seal tells the managers what was sent. If they never take it, the delivery ends by its deadline. If it has ended already, those who
// watch it hear how.
func (o *Outgoing) seal(ctx context.Context, request *groupv1.SealDeliveryRequest) {
	request.Delivery, request.Sender, request.Incarnation = o.id, o.session.member.Name, o.session.member.Incarnation
	err := o.session.client.insist(ctx, func() error {
		_, err := o.session.client.deliveries.SealDelivery(ctx, request)
		return wrap(err)
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	var refused *Error
	errors.As(err, &refused)
	switch {
	case refused != nil && refused.Reason == "DELIVERY_ENDED":
	case refused != nil && refused.Reason == "OBJECT_TOO_LARGE": // how long a stream is shows only now
		o.fail(ctx, "failed", err)
	default:
		o.note(Delivery{}, fmt.Errorf("seal delivery: %w", err))
	}
}
