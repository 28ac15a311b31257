package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// callMetrics measures the calls of this manager's own callers: what another manager passes on is measured there. Methods and codes are
// bounded sets.
type callMetrics struct {
	isPassedOn func(context.Context) bool

	duration *prometheus.HistogramVec
	streams  *prometheus.GaugeVec
}

func newCallMetrics(isPassedOn func(context.Context) bool) *callMetrics {
	return &callMetrics{
		isPassedOn: isPassedOn,
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "groupcast_manager_call_duration_seconds", Help: "How long unary calls took, by method and gRPC code; at the manager that the caller is connected with.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"method", "code"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "groupcast_manager_streams", Help: "Streams open now, by method; at the manager that the caller is connected with.",
		}, []string{"method"}),
	}
}

func (c *callMetrics) Describe(to chan<- *prometheus.Desc) {
	c.duration.Describe(to)
	c.streams.Describe(to)
}

func (c *callMetrics) Collect(to chan<- prometheus.Metric) {
	c.duration.Collect(to)
	c.streams.Collect(to)
}

func (c *callMetrics) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if c.isPassedOn(ctx) {
		return handler(ctx, req)
	}
	start := time.Now()
	response, err := handler(ctx, req)
	c.took(start, info.FullMethod, err)
	return response, err
}

// admit measures the calls that are refused before their requests are read.
func (c *callMetrics) admit(admit func(context.Context, string) error) func(context.Context, string) error {
	return func(ctx context.Context, method string) error {
		start := time.Now()
		err := admit(ctx, method)
		if err != nil && !c.isPassedOn(ctx) {
			c.took(start, method, err)
		}
		return err
	}
}

func (c *callMetrics) took(start time.Time, method string, err error) {
	c.duration.WithLabelValues(method, status.Code(err).String()).Observe(time.Since(start).Seconds())
}

func (c *callMetrics) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if c.isPassedOn(stream.Context()) {
		return handler(srv, stream)
	}
	open := c.streams.WithLabelValues(info.FullMethod)
	open.Inc()
	defer open.Dec()
	return handler(srv, stream)
}
