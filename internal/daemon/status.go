package daemon

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// ErrorDomain is the domain of the reasons in google.rpc.ErrorInfo.
const ErrorDomain = "groupcast.dev"

// RetrySoon is after how long to repeat what failed only for the moment.
const RetrySoon = 500 * time.Millisecond

// Code gives an error of an API its code, and a reason for programs.
type Code struct {
	Err    error
	Code   codes.Code
	Reason string
}

// Status turns an error into what an API returns, by the first entry of the table that matches.
func Status(err error, table []Code) error {
	if err == nil {
		return nil
	}
	if _, is := status.FromError(err); is {
		return err
	}
	for _, one := range table {
		switch {
		case !errors.Is(err, one.Err):
		case one.Code == codes.Unavailable:
			return NewStatus(one.Code, one.Reason, err, RetryIn(RetrySoon))
		default:
			return NewStatus(one.Code, one.Reason, err)
		}
	}
	return NewStatus(codes.Internal, "INTERNAL", err)
}

// NewStatus returns an error in the form in which an API returns it, with a reason for programs.
func NewStatus(code codes.Code, reason string, err error, details ...protoadapt.MessageV1) error {
	s := status.New(code, Clip(err.Error()))
	detailed, detailErr := s.WithDetails(append(details, &errdetails.ErrorInfo{Reason: reason, Domain: ErrorDomain})...)
	if detailErr != nil {
		return s.Err()
	}
	return detailed.Err()
}

// RetryIn says when to try again.
func RetryIn(delay time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}
}

// maxText bounds what an answer says, as it may repeat what the caller said.
const maxText = 1 << 10

// Clip bounds a text that an answer repeats.
func Clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
