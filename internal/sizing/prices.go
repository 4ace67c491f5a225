package sizing

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

//go:embed prices.json
var defaultPrices []byte

// Prices are what servers cost, at a date.
type Prices struct {
	Date       string     `json:"date"`   // of the prices: 2026-10 or 2026-10-31
	Region     string     `json:"region"` // that they are of
	Source     string     `json:"source"` // where they are from
	Nodes      []Node     `json:"nodes"`
	Serverless Serverless `json:"serverless"`
}

// Node is a type of server.
type Node struct {
	Type       string  `json:"type"`
	GiB        float64 `json:"gib"` // of memory, above 0
	USDPerHour float64 `json:"usd_per_hour"`
	// Gbit is the bandwidth that the node has at all times, in Gbit/s each way; 0: not known, and not
	// kept to.
	Gbit float64 `json:"gbit,omitzero"`
	// Burstable says that the node has its CPU for moments, and a share of it for good.
	Burstable bool `json:"burstable,omitzero"`
}

// Serverless is the price of a cache without nodes.
type Serverless struct {
	USDPerGBHour      float64 `json:"usd_per_gb_hour"` // of 10^9 bytes
	USDPerMillionECPU float64 `json:"usd_per_million_ecpu"`
	LeastGB           float64 `json:"least_gb"` // that are paid for
}

// DefaultPrices returns the prices that the command has with it.
func DefaultPrices() Prices {
	prices, err := ParsePrices(defaultPrices)
	if err != nil {
		panic(err) // a test reads them
	}
	return prices
}

// ParsePrices reads prices from JSON, strictly: an unknown field, one that is there twice, a missing or
// impossible value is an error that names it.
func ParsePrices(text []byte) (Prices, error) {
	var p Prices
	if err := json.Unmarshal(text, &p, json.RejectUnknownMembers(true)); err != nil {
		return Prices{}, readable(err)
	}
	if err := p.check(); err != nil {
		return Prices{}, err
	}
	return p, nil
}

// readable is err in words that do not tell of this program's types.
func readable(err error) error {
	if invalid, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(invalid, jsontext.ErrDuplicateName) {
			return fmt.Errorf("field %s is there twice", invalid.JSONPointer)
		}
		return fmt.Errorf("not JSON, at byte %d: %w", invalid.ByteOffset, invalid.Err)
	}
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(wrong, json.ErrUnknownName) {
			return fmt.Errorf("unknown field %s", wrong.JSONPointer)
		}
		if wrong.JSONPointer == "" {
			return errors.New("not a JSON object")
		}
		return fmt.Errorf("%s: %v is not what it has to be", wrong.JSONPointer, wrong.JSONKind)
	}
	return err
}

func (p *Prices) check() error {
	if !validDate(p.Date) {
		return fmt.Errorf("date %q is not like 2026-10 or 2026-10-31", p.Date)
	}
	if p.Region == "" || p.Source == "" || len(p.Nodes) == 0 {
		return errors.New("region, source or nodes is missing")
	}
	if strings.ContainsFunc(p.Region+p.Source, unicode.IsControl) {
		return errors.New("region or source: has control characters")
	}
	wellNamed := regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)
	named := make(map[string]bool)
	for i, n := range p.Nodes {
		switch {
		case !wellNamed.MatchString(n.Type):
			return fmt.Errorf("nodes[%d]: type %q is not 1 to 63 lower-case letters, digits, dots and dashes", i, n.Type)
		case named[n.Type]:
			return fmt.Errorf("nodes[%d]: %s is there twice", i, n.Type)
		case !(n.GiB >= 0.01 && n.GiB <= 1e6):
			return fmt.Errorf("%s: gib %g is not in 0.01 to 1e6", n.Type, n.GiB)
		case !(n.USDPerHour > 0 && n.USDPerHour <= 1e6):
			return fmt.Errorf("%s: usd_per_hour %g is not above 0 and up to 1e6", n.Type, n.USDPerHour)
		case !(n.Gbit >= 0 && n.Gbit <= 1e6):
			return fmt.Errorf("%s: gbit %g is not in 0 to 1e6", n.Type, n.Gbit)
		}
		named[n.Type] = true
	}
	s := p.Serverless
	if !(s.USDPerGBHour > 0 && s.USDPerGBHour <= 1e6 && s.USDPerMillionECPU > 0 && s.USDPerMillionECPU <= 1e6) ||
		!(s.LeastGB >= 0 && s.LeastGB <= 1e6) {
		return errors.New("serverless: a price is not above 0 and up to 1e6, or least_gb not in 0 to 1e6")
	}
	return nil
}

func validDate(date string) bool {
	for _, layout := range []string{"2006-01", time.DateOnly} {
		if _, err := time.Parse(layout, date); err == nil {
			return true
		}
	}
	return false
}

// node returns the type of that name.
func (p *Prices) node(name string) (Node, bool) {
	for _, n := range p.Nodes {
		if n.Type == name {
			return n, true
		}
	}
	return Node{}, false
}

// types are the names of the nodes.
func (p *Prices) types() []string {
	names := make([]string, len(p.Nodes))
	for i, n := range p.Nodes {
		names[i] = n.Type
	}
	return names
}
