package uplink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"

	"github.com/groupcast/groupcast/internal/identity"
)

// EnrollOnce exchanges the join token in a file for credentials, unless there are some. An
// empty name of a file says that somebody else puts them there.
func EnrollOnce(ctx context.Context, config Config, tokenFile string, opts ...grpc.DialOption) error {
	_, err := identity.FilesIn(config.CredentialsDir).Credentials()
	if err == nil || tokenFile == "" || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return fmt.Errorf("read join token: %w", err)
	}
	if _, err := Enroll(ctx, config, strings.TrimSpace(string(token)), opts...); err != nil {
		return fmt.Errorf("enroll with the token in %s: %w", filepath.Clean(tokenFile), err)
	}
	return nil
}
