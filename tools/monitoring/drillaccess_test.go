package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

func accessScenarios() []scenario {
	return []scenario{
		{
			alert: "FeedfilterTokensNotReloaded", how: "The token file is truncated.", recovered: "The last good file restored.",
			prepare: withToken,
			provoke: func(d *drill) {
				text := read(d.t, d.path("feedfilter-tokens.json"))
				write(d.t, d.path("feedfilter-tokens.json.good"), text)
				d.moves(`feedfilter_token_file_reloads_total{result="failed"}`, func() { write(d.t, d.path("feedfilter-tokens.json"), text[:len(text)/2]) })
			},
			most: 5 * time.Minute,
			mended: func(d *drill) {
				d.await(`feedfilter_token_file_reloads_total{result="ok"}`, above(0))
			},
			ends: 2 * time.Minute,
		},
		{
			alert: "FeedfilterAuditFailures", how: "The audit log's disk is full (`/dev/full`).", recovered: "The log moved, reload; a quarter of an hour passed.",
			prepare: audit,
			provoke: func(d *drill) {
				must(d.t, os.Remove(d.path("feedfilter-audit.log")))
				must(d.t, os.Symlink("/dev/full", d.path("feedfilter-audit.log")))
				must(d.t, d.reload())
				d.moves(`feedfilter_requests_refused_total{reason="audit_unavailable"}`, func() {
					d.within(time.Minute, "a block is refused", func() bool { return d.blocks() == http.StatusServiceUnavailable })
				})
			},
			most: time.Minute,
			mended: func(d *drill) {
				// The service reloads some time after SIGHUP.
				d.within(time.Minute, "a block is recorded", func() bool { return d.blocks() == http.StatusOK })
				if !d.audited() {
					d.t.Error("the audit log is empty")
				}
				if lost := d.sum("feedfilter_audit_failures_total"); lost != 0 {
					d.t.Errorf("%v lines were lost", lost)
				}
			},
			ends: 20 * time.Minute,
		},
		{
			alert: "FeedfilterCertificateExpires", how: "A certificate that expires in 20 hours.", recovered: "A new certificate, reload.",
			prepare: func(d *drill) {
				crt, key := certificate(d.t, 90*24*time.Hour)
				write(d.t, d.path("feedfilter-tls.crt"), crt)
				write(d.t, d.path("feedfilter-tls.key"), key)
				d.settings["tls-cert"], d.settings["tls-key"] = d.path("feedfilter-tls.crt"), d.path("feedfilter-tls.key")
			},
			provoke: func(d *drill) {
				crt, key := certificate(d.t, 20*time.Hour)
				write(d.t, d.path("feedfilter-tls.key"), key)
				write(d.t, d.path("feedfilter-tls.crt"), crt)
				d.await("feedfilter_tls_certificate_expiry_timestamp_seconds", func(v float64) bool { return v < float64(time.Now().Add(21*time.Hour).Unix()) })
			},
			most: 2 * time.Hour,
			files: func(d *drill) map[string]string {
				crt, key := certificate(d.t, 90*24*time.Hour)
				return map[string]string{"new.crt": crt, "new.key": key}
			},
			mended: func(d *drill) {
				d.await("feedfilter_tls_certificate_expiry_timestamp_seconds", above(float64(time.Now().Add(80*24*time.Hour).Unix())))
			},
			ends: time.Minute,
		},
	}
}

// blocks asks for a block, and returns the status of the answer.
func (d *drill) blocks() int {
	status, _ := d.ask(http.MethodPut, "/v1/users/u1/blocks/b1", nil)
	return status
}

// audited reports whether the audit log has any text.
func (d *drill) audited() bool {
	text, err := os.ReadFile(d.path("feedfilter-audit.log"))
	return err == nil && len(text) > 0
}

// certificate makes a certificate for 127.0.0.1 and its key, both as PEM.
func certificate(t *testing.T, good time.Duration) (crt, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "drill"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(good),
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(text), 0o600))
}
