package gather_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"

	"github.com/groupcast/groupcast/sdk/gather"
)

// A file and a stream are uploaded; both go on where they were when they are uploaded again.
func ExampleClient() {
	ctx := context.Background()
	client, err := gather.Open(ctx, "member.yaml", "gather.example:7420", gather.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	done, err := client.Upload(ctx, "results.parquet", gather.FileOptions{Path: "run-7/results.parquet"})
	fmt.Println(done.Path, done.Bytes, done.There, err)

	records := []byte("all that was measured, in order\n")
	done, err = client.UploadStream(ctx, func(offset uint64) (io.Reader, error) {
		return bytes.NewReader(records[offset:]), nil // the gatherer has what is before
	}, gather.StreamOptions{Path: "run-7/log"})
	fmt.Println(done.Path, done.Bytes, err)
}
