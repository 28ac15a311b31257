package sdk

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/uplink"
)

// Code is what kind of failure an error is.
type Code int

// The codes. OK is that of no error.
const (
	OK Code = iota - 1
	Failed
	InvalidArgument
	NotFound
	AlreadyExists
	Conflict    // changed meanwhile, or not possible in the present state
	Forbidden   // there is no identity, or it is refused, or it may not do that
	NoRoom      // a limit is reached, or a disk is full
	Unavailable // no manager answers, or none leads
	TimedOut    // the context ended first
	Interrupted // the context was canceled
)

// NoManager is the reason of an error when no manager has answered. It is given by this package.
const NoManager = "NO_MANAGER"

var codeNames = map[Code]string{
	OK: "ok", Failed: "failed", InvalidArgument: "invalid argument", NotFound: "not found", AlreadyExists: "already exists", Conflict: "conflict",
	Forbidden: "forbidden", NoRoom: "no room", Unavailable: "unavailable", TimedOut: "timed out", Interrupted: "interrupted",
}

func (c Code) String() string { return codeNames[c] }

// Error is a failure that a manager, or the way to it, reported.
type Error struct {
	Code Code
	// Reason is a constant for programs, such as GROUP_IN_USE; empty if there is none. docs/reasons.md has all.
	Reason  string
	Message string
	cause   error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the error that it was made of: as gRPC reported it, or one of this machine.
func (e *Error) Unwrap() error { return e.cause }

// Is makes Interrupted match context.Canceled, and TimedOut context.DeadlineExceeded.
func (e *Error) Is(target error) bool {
	return target == context.Canceled && e.Code == Interrupted || target == context.DeadlineExceeded && e.Code == TimedOut
}

// CodeOf returns the code of an error; Failed for errors that have none, and OK without an error.
func CodeOf(err error) Code {
	var known *Error
	var ended *SessionEnded
	switch {
	case err == nil:
		return OK
	case errors.As(err, &known):
		return known.Code
	case errors.As(err, &ended):
		return Conflict
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Failed
}

var codeOf = map[codes.Code]Code{
	codes.InvalidArgument:    InvalidArgument,
	codes.OutOfRange:         InvalidArgument,
	codes.NotFound:           NotFound,
	codes.AlreadyExists:      AlreadyExists,
	codes.Aborted:            Conflict,
	codes.FailedPrecondition: Conflict,
	codes.PermissionDenied:   Forbidden,
	codes.Unauthenticated:    Forbidden,
	codes.ResourceExhausted:  NoRoom,
	codes.Unavailable:        Unavailable,
	codes.DeadlineExceeded:   TimedOut,
	codes.Canceled:           Interrupted,
}

// Because makes an Error that wraps another error; for packages beside this one.
func Because(code Code, cause error) *Error {
	return &Error{Code: code, Message: cause.Error(), cause: cause}
}

// Reported makes an Error of what gRPC reported, for packages beside this one.
func Reported(err error) error { return wrap(err) }

// wrap makes an Error of what gRPC reported.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	// What is wrapped around the status only says what was called, which the caller knows.
	var reported interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &reported) {
		return err
	}
	s := reported.GRPCStatus()
	var unanswered *uplink.Unanswered
	if errors.As(err, &unanswered) {
		return &Error{Code: codeOf[s.Code()], Reason: NoManager, Message: unanswered.Error(), cause: err}
	}
	return &Error{Code: codeOf[s.Code()], Reason: uplink.Reason(err), Message: uplink.Words(err), cause: err}
}
