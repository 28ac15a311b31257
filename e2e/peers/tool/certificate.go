package tool

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// certify writes a key and an empty certificate for it to the sender's disk.
func (j *Job) certify(name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	var text bytes.Buffer
	_ = pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	return j.write(j.Sender, name, text.String(), 0o600)
}
