package lab

import "sync"

const captureLimit = 4 << 20

// capture keeps the last bytes that programs wrote.
type capture struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (c *capture) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, text...)
	if extra := len(c.text) - captureLimit; extra > 0 {
		c.text = append(c.text[:0], c.text[extra:]...)
	}
	return len(text), nil
}

func (c *capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.text)
}
