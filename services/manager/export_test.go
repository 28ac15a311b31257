package manager

import (
	"testing"

	"github.com/groupcast/groupcast/internal/kubernetes"
)

// UseAPIServer has managers of a test find this API server.
func UseAPIServer(t *testing.T, client *kubernetes.Client) {
	before := apiServer
	t.Cleanup(func() { apiServer = before })
	apiServer = func() (*kubernetes.Client, error) { return client, nil }
}
