package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
)

const (
	auditOff    = "off"    // a value of --audit-log
	auditStdout = "-"      // a value of --audit-log
	idKeyFile   = "id.key" // in the data directory
	localhost   = "localhost"
	addrFlag    = "--addr"
)

// authFlags set who may connect to a listening process.
type authFlags struct {
	InsecureNoAuth bool   `help:"${no_auth}"`
	AuthFile       string `help:"${auth_file}"     placeholder:"FILE"`
	TLSCert        string `help:"${tls_cert}"      placeholder:"FILE"`
	TLSKey         string `help:"${tls_key}"       placeholder:"FILE"`
	TLSClientCA    string `help:"${tls_client_ca}" placeholder:"FILE"`
}

// accessFlags set who may call the service, and how often.
type accessFlags struct {
	authFlags

	RateLimit     access.Rate `help:"${rate_limit}"  placeholder:"RATE"`
	UserRateLimit access.Rate `help:"${user_rate}"   placeholder:"RATE"`
	AuditLog      string      `default:"off"         help:"${audit_log}" placeholder:"FILE"`
	AuditReads    bool        `help:"${audit_reads}"`
	AuditFailure  string      `default:"refuse"      enum:"refuse,drop"  help:"${audit_failure}" placeholder:"ACTION"`
	IDKeyFile     string      `help:"${id_key_file}" placeholder:"FILE"`
}

// check returns the mistakes in the flags, in the files that they name, and in the address.
func (f *accessFlags) check(ctx context.Context, addr string) error {
	var all checks
	all.wantf(f.RateLimit == access.Rate{} || f.AuthFile != "", "--rate-limit: requires --auth-file")
	all.wantf(f.AuditLog != "", "--audit-log: empty, want a file, - or off")
	all.wantf(!f.AuditReads || f.AuditLog != auditOff, "--audit-reads: requires --audit-log")
	all.note(f.authFlags.check(ctx, addrFlag, addr))
	return all.err()
}

// check returns the mistakes in the flags, in the files that they name, and in the address, which
// the named flag sets.
func (f *authFlags) check(ctx context.Context, flag, addr string) error {
	var all checks
	all.wantf(
		(f.TLSCert == "") == (f.TLSKey == ""),
		"--tls-cert: requires --tls-key, and the other way round",
	)
	all.wantf(f.TLSClientCA == "" || f.TLSCert != "", "--tls-client-ca: requires --tls-cert")
	all.note(checkAddresses(flag, addr))
	_, err := f.open(ctx, flag, addr, access.Rate{}, slog.New(slog.DiscardHandler))
	all.note(err)
	return all.err()
}

// checkExposure reports whether other machines can reach an address. It refuses such an address
// without --auth-file and without --insecure-no-auth.
func (f *authFlags) checkExposure(
	ctx context.Context, flag, addr string,
) (exposed bool, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w: want <host>:<port>", flag, err)
	}
	ips := []netip.Addr{netip.IPv4Unspecified()} // the meaning of an empty host
	if host != "" {
		if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return false, fmt.Errorf("%s %s: %w", flag, addr, err)
		}
	}
	for _, ip := range ips {
		switch ip = ip.Unmap(); {
		case ip.IsLoopback():
		case f.AuthFile != "" || f.InsecureNoAuth:
			exposed = true
		default:
			return true, usageError{fmt.Errorf(
				"%s %s: other machines can reach %s without authentication: "+
					"give --auth-file, choose a loopback address, or allow it with --insecure-no-auth",
				flag, addr, ip,
			)}
		}
	}
	return exposed, nil
}

// accessControl stands between the listeners and the handlers.
type accessControl struct {
	access       limits.Access
	certificates *access.Certificates // nil: plain HTTP
	warnings     []string
	watches      sync.WaitGroup
}

// open prepares the access control of the service, and limits how often users are written and read.
func (f *accessFlags) open(
	ctx context.Context, addr string, log *slog.Logger,
) (*accessControl, error) {
	control, err := f.authFlags.open(ctx, addrFlag, addr, f.RateLimit, log)
	control.access.Users = access.NewUsers(f.UserRateLimit)
	return control, err
}

// open reads the files that the flags name. It keeps warnings for start, because the log's first
// line comes before them. The rate is that of each token.
func (f *authFlags) open(
	ctx context.Context, flag, addr string, rate access.Rate, log *slog.Logger,
) (*accessControl, error) {
	control := &accessControl{}
	var all checks
	exposed := false
	for _, a := range tcpAddresses(addr) { // the mode of a Unix socket says who may use it
		reached, err := f.checkExposure(ctx, flag, a)
		exposed = exposed || reached
		all.note(err)
	}
	var err error
	if f.AuthFile != "" {
		config := access.TokensConfig{File: f.AuthFile, Rate: rate, Logger: log}
		if control.access.Tokens, err = access.OpenTokens(config); err != nil {
			all.note(usageError{fmt.Errorf("--auth-file: %w", err)})
		}
		control.warnOfFile(f.AuthFile)
	} else if !f.InsecureNoAuth {
		control.access.Hosts = []string{localhost}
		for _, a := range tcpAddresses(addr) {
			host, _, _ := net.SplitHostPort(a)
			control.access.Hosts = append(control.access.Hosts, host)
		}
	}
	if f.TLSCert != "" && f.TLSKey != "" {
		files := access.CertificateFiles{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.TLSClientCA}
		if control.certificates, err = access.OpenCertificates(files, log); err != nil {
			all.note(usageError{fmt.Errorf("--tls-cert: %w", err)})
		}
		control.warnOfFile(f.TLSKey)
	} else if exposed && f.AuthFile != "" {
		control.warnings = append(
			control.warnings,
			"tokens are sent in plain text, unless a proxy in front of the service terminates TLS",
		)
	}
	return control, all.err()
}

// openLogs opens the id key and the audit log, and creates them if necessary. It is called after
// other checks, so that a refused start creates neither.
func (f *accessFlags) openLogs(
	control *accessControl, dataDir string, std stdio, log *slog.Logger,
) error {
	ids, warning, err := openIDs(f.IDKeyFile, dataDir, f.AuditLog != auditOff)
	if err != nil {
		return err
	}
	control.access.IDs = ids
	if warning != "" {
		control.warnings = append(control.warnings, warning)
	}
	control.access.AuditReads = f.AuditReads
	failure := access.AuditFailure(f.AuditFailure)
	switch f.AuditLog {
	case auditOff:
	case auditStdout:
		control.access.Audit = access.NewAudit(std.out, failure, log)
	default:
		if control.access.Audit, err = access.OpenAudit(f.AuditLog, failure, log); err != nil {
			return usageError{fmt.Errorf("--audit-log: %w", err)}
		}
	}
	return nil
}

// openIDs opens or creates the id key, in the file of --id-key-file or else the data directory. It
// uses a temporary key if the data directory cannot hold a key, and neither --id-key-file nor an
// audit log needs a lasting one.
func openIDs(file, dataDir string, lasting bool) (ids *access.IDs, warning string, err error) {
	name := cmp.Or(file, filepath.Join(dataDir, idKeyFile))
	ids, err = access.OpenIDs(name)
	switch {
	case err == nil:
		return ids, openFile(name), nil
	case file == "" && !lasting:
		const temporary = "ids in logs are hashed with a temporary key, which ends with this process: "
		return access.NewIDs(), temporary + err.Error(), nil
	default:
		return nil, "", usageError{fmt.Errorf("--id-key-file: %w", err)}
	}
}

// warnOfFile warns of an open file. It is not an error, because operators cannot always set the
// modes of files on volumes.
func (control *accessControl) warnOfFile(name string) {
	if warning := openFile(name); warning != "" {
		control.warnings = append(control.warnings, warning)
	}
}

// openFile returns a warning if every user may read or write a file; "": nobody else may.
func openFile(name string) string {
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm()&0o006 == 0 {
		return ""
	}
	return fmt.Sprintf(
		"every user of this machine may read or write %s: mode %v", name, info.Mode().Perm(),
	)
}

// start logs the warnings, and watches the files for changes until ctx ends.
func (control *accessControl) start(ctx context.Context, log *slog.Logger) {
	for _, w := range control.warnings {
		log.WarnContext(ctx, "access", "warning", w)
	}
	if control.access.Tokens != nil {
		control.watches.Go(func() { control.access.Tokens.Watch(ctx) })
	}
	if control.certificates != nil {
		control.watches.Go(func() { control.certificates.Watch(ctx) })
	}
}

// reload rereads the files at once, and reopens the audit log, which may have been rotated.
func (control *accessControl) reload(ctx context.Context) error {
	var errs []error
	if control.access.Tokens != nil {
		errs = append(errs, control.access.Tokens.Reload(ctx))
	}
	if control.certificates != nil {
		errs = append(errs, control.certificates.Reload(ctx))
	}
	if control.access.Audit != nil {
		errs = append(errs, control.access.Audit.Reopen())
	}
	return errors.Join(errs...)
}

// listener adds TLS to a TCP listener if the service has a certificate. Unix sockets have no TLS.
func (control *accessControl) listener(l net.Listener) net.Listener {
	if control.certificates == nil || l.Addr().Network() == "unix" {
		return l
	}
	return tls.NewListener(l, control.certificates.Config())
}

// close closes the audit log. Call it once the context of start has ended and no request is left.
func (control *accessControl) close() error {
	control.watches.Wait()
	if control.access.Audit == nil {
		return nil
	}
	return control.access.Audit.Close()
}
