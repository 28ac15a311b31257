// Package kubernetes is the little that Groupcast asks of a Kubernetes API server: reviews of
// ServiceAccount tokens, and the content of Secrets and ConfigMaps that somebody else has created.
// A client library is too heavy for three stable requests.
package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// mounted is where a pod finds the API server's CA, its own namespace, and its token.
const mounted = "/var/run/secrets/kubernetes.io/serviceaccount"

const (
	requestTimeout = 10 * time.Second
	// maxAnswer is the size of the largest answer: a Secret or ConfigMap has 1 MiB at most.
	maxAnswer = 4 << 20
)

// Errors of the API server that callers tell apart.
var (
	// ErrConflict says that the object was changed since it was read.
	ErrConflict = errors.New("changed meanwhile")
	// ErrNoAnswer says that the API server did not answer, or could not do at present what it was asked, for instance
	// during an upgrade of the control plane.
	ErrNoAnswer = errors.New("ask the API server")
	// ErrNotInCluster says that this process does not run in a pod.
	ErrNotInCluster = errors.New("not in a Kubernetes pod: the API server's address and this pod's token are not there")
)

// Client speaks to the API server of the cluster that this process is a pod of.
type Client struct {
	// Namespace is this pod's own.
	Namespace string

	server    string
	tokenFile string
	http      *http.Client
}

// InCluster returns a client with the credentials that Kubernetes gives to every pod.
func InCluster() (*Client, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, ErrNotInCluster
	}
	return New("https://"+net.JoinHostPort(host, port), mounted)
}

// New returns a client of a server, with ca.crt, namespace and token from a directory.
func New(server, dir string) (*Client, error) {
	authorities, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotInCluster, err)
	}
	namespace, err := os.ReadFile(filepath.Join(dir, "namespace"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotInCluster, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("read the API server's CA: %s holds no certificate", filepath.Join(dir, "ca.crt"))
	}
	return &Client{
		Namespace: strings.TrimSpace(string(namespace)), server: server, tokenFile: filepath.Join(dir, "token"),
		http: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, ForceAttemptHTTP2: true,
		}},
	}, nil
}

// call makes a request and reads the answer. The token is read again each time: it is renewed in its file.
func (c *Client) call(ctx context.Context, method, path, contentType string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	token, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return fmt.Errorf("read this pod's token: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return refusal(method, path, answer.StatusCode, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read the API server's answer to %s %s: %w", method, path, err)
	}
	return nil
}

// refusal says, in the API server's own words, why it did not do what it was asked.
func refusal(method, path string, code int, text []byte) error {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = http.StatusText(code)
	}
	err := fmt.Errorf("the API server refuses %s %s: %s", method, path, status.Message)
	switch {
	case code == http.StatusConflict:
		return fmt.Errorf("%w: %w", ErrConflict, err)
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	default:
		return err
	}
}

// Version tells one state of an object from all others.
type Version string

type metadata struct {
	ResourceVersion Version `json:"resourceVersion,omitempty"`
}

// object is the part of a Secret or a ConfigMap that matters here. A Secret's values are base64, like []byte in JSON.
type object[V []byte | string] struct {
	Metadata metadata     `json:"metadata"`
	Data     map[string]V `json:"data,omitempty"`
}

// Secret returns the content of a Secret in this pod's namespace.
func (c *Client) Secret(ctx context.Context, name string) (map[string][]byte, Version, error) {
	var found object[[]byte]
	err := c.call(ctx, http.MethodGet, c.path("secrets", name), "application/json", nil, &found)
	return found.Data, found.Metadata.ResourceVersion, err
}

// SetSecret sets keys of a Secret. If a version is given, it returns ErrConflict unless the Secret still has that version.
func (c *Client) SetSecret(ctx context.Context, name string, data map[string][]byte, read Version) error {
	return c.patch(ctx, c.path("secrets", name), object[[]byte]{metadata{read}, data})
}

// SetConfigMap sets keys of a ConfigMap.
func (c *Client) SetConfigMap(ctx context.Context, name string, data map[string]string) error {
	return c.patch(ctx, c.path("configmaps", name), object[string]{Data: data})
}

func (c *Client) patch(ctx context.Context, path string, change any) error {
	var changed struct{}
	return c.call(ctx, http.MethodPatch, path, "application/merge-patch+json", change, &changed)
}

func (c *Client) path(kind, name string) string {
	return "/api/v1/namespaces/" + url.PathEscape(c.Namespace) + "/" + kind + "/" + url.PathEscape(name)
}
