-- All that the source had committed until then is in the ledger, in microseconds of the ledger's
-- clock; 0: not known.
ALTER TABLE sources ADD COLUMN followed bigint NOT NULL DEFAULT 0;
