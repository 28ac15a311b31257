package supply

import "io"

// mostEmpty is how often in a row a reader may return neither bytes nor an error; bufio has the same limit.
const mostEmpty = 100

// Reader returns a reader that gives bytes or an error with every read, whatever it reads from: if that gives
// neither again and again, it ends with io.ErrNoProgress.
func Reader(from io.Reader) io.Reader { return giving{from} }

type giving struct{ from io.Reader }

func (g giving) Read(p []byte) (int, error) {
	for range mostEmpty {
		if n, err := g.from.Read(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}
