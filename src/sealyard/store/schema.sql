-- The tables, as numbered migrations: the section `schema N` leads from schema N - 1 to N. Each keeps its indentation,
-- since SQLite stores the text of a table and the audit log is checked against it.

-- schema 1
    CREATE TABLE codes (
        sha256 TEXT PRIMARY KEY,
        code BLOB NOT NULL
    );

    CREATE TABLE executions (
        execution_id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        principal TEXT NOT NULL,
        session TEXT NOT NULL,
        code_sha256 TEXT NOT NULL REFERENCES codes (sha256),
        context TEXT,
        context_cut INTEGER NOT NULL,
        started_at DOUBLE PRECISION NOT NULL,
        ended_at DOUBLE PRECISION,
        status TEXT NOT NULL,
        outcome TEXT,
        catalog_version TEXT NOT NULL,
        background INTEGER NOT NULL
    );
    CREATE INDEX executions_by_time ON executions (started_at, execution_id);
    CREATE INDEX executions_by_principal ON executions (principal, started_at, execution_id);
    CREATE INDEX executions_running ON executions (owner) WHERE status = 'running';

    -- No reference to executions and no unique number: a call that was made is kept, whatever else went wrong.
    CREATE TABLE calls (
        execution_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        tool TEXT NOT NULL,
        digest TEXT NOT NULL,
        arguments TEXT,
        arguments_cut INTEGER NOT NULL,
        answer TEXT,
        answer_cut INTEGER NOT NULL,
        answer_bytes INTEGER NOT NULL,
        error TEXT,
        started_at DOUBLE PRECISION NOT NULL,
        seconds DOUBLE PRECISION NOT NULL
    );
    CREATE INDEX calls_by_execution ON calls (execution_id, number);

    CREATE TABLE tools (
        upstream TEXT NOT NULL,
        position INTEGER NOT NULL,
        digest TEXT NOT NULL,
        spec TEXT NOT NULL,
        PRIMARY KEY (upstream, position)
    );

    CREATE TABLE tool_definitions (
        upstream TEXT NOT NULL,
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        spec TEXT NOT NULL,
        first_seen DOUBLE PRECISION NOT NULL,
        last_seen DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (upstream, name, digest)
    );
    CREATE INDEX tool_definitions_by_time ON tool_definitions (upstream, last_seen);

    CREATE TABLE vectors (
        model TEXT NOT NULL,
        digest TEXT NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (model, digest)
    );

-- schema 2
    CREATE TABLE upstreams (
        upstream TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL
    );

-- schema 3
    -- `id` is random: a scope that was erased and made anew is another one, and what waits for the old one is dropped.
    CREATE TABLE vault_scopes (
        scope TEXT PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        key_id TEXT NOT NULL,
        sealed BLOB NOT NULL,
        erasures INTEGER NOT NULL,
        used_at DOUBLE PRECISION NOT NULL
    );

    CREATE TABLE vault_values (
        number INTEGER PRIMARY KEY,
        scope_id TEXT NOT NULL REFERENCES vault_scopes (id) ON DELETE CASCADE,
        id TEXT NOT NULL,
        type TEXT NOT NULL,
        sealed BLOB NOT NULL,
        expires_at DOUBLE PRECISION NOT NULL,
        UNIQUE (scope_id, id, type)
    );
    CREATE INDEX vault_values_by_number ON vault_values (scope_id, number);
    CREATE INDEX vault_values_by_expiry ON vault_values (expires_at);

    CREATE TABLE vault_erased (
        scope_id TEXT NOT NULL REFERENCES vault_scopes (id) ON DELETE CASCADE,
        id TEXT NOT NULL,
        PRIMARY KEY (scope_id, id)
    );

    CREATE TABLE audit (
        number INTEGER PRIMARY KEY,
        segment INTEGER NOT NULL,
        at_microseconds BIGINT NOT NULL,
        kind TEXT NOT NULL,
        principal TEXT NOT NULL,
        session TEXT NOT NULL,
        execution_id TEXT NOT NULL,
        body TEXT NOT NULL,
        hash TEXT NOT NULL
    );
    CREATE INDEX audit_by_execution ON audit (execution_id, number) WHERE execution_id <> '';

    CREATE TABLE audit_segments (
        segment INTEGER PRIMARY KEY,
        first_number BIGINT NOT NULL,
        last_number BIGINT NOT NULL,
        previous_hash TEXT NOT NULL,
        last_hash TEXT NOT NULL,
        closed_at_microseconds BIGINT NOT NULL,
        exported_sha256 TEXT NOT NULL DEFAULT '',
        removed_at_microseconds BIGINT NOT NULL DEFAULT 0,
        signature TEXT NOT NULL
    );

    CREATE TABLE audit_head (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        number BIGINT NOT NULL,
        hash TEXT NOT NULL,
        at_microseconds BIGINT NOT NULL,
        public_key TEXT NOT NULL,
        signature TEXT NOT NULL
    );

    CREATE TABLE approvals (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        principal TEXT NOT NULL,
        tool TEXT NOT NULL,
        arguments_sha256 TEXT NOT NULL,
        ask TEXT NOT NULL,
        expires_at DOUBLE PRECISION NOT NULL,
        approval TEXT
    );
    CREATE INDEX approvals_waiting ON approvals (expires_at) WHERE approval IS NULL;

    CREATE TABLE approvals_remembered (
        principal TEXT NOT NULL,
        tool TEXT NOT NULL,
        arguments_sha256 TEXT NOT NULL,
        id TEXT NOT NULL,
        ask TEXT NOT NULL,
        approval TEXT NOT NULL,
        PRIMARY KEY (principal, tool, arguments_sha256)
    );

-- schema 4
    -- One row for each version of a skill; a deleted one stays, marked, so that its number is never given again.
    -- `changed` grows with every change to any row: a reader of the highest has seen all changes.
    CREATE TABLE skills (
        number INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        major INTEGER NOT NULL,
        minor INTEGER NOT NULL,
        patch INTEGER NOT NULL,
        status TEXT NOT NULL,
        note TEXT NOT NULL,
        digest TEXT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        modified_at DOUBLE PRECISION NOT NULL,
        deleted_at DOUBLE PRECISION,
        changed BIGINT NOT NULL,
        skill TEXT NOT NULL,
        UNIQUE (namespace, name, major, minor, patch)
    );
    CREATE INDEX skills_kept ON skills (namespace, name, number, deleted_at) WHERE deleted_at IS NULL;
    CREATE INDEX skills_by_change ON skills (changed);

    -- Examples with their traces, compressed JSON: apart, so that listing skills does not read them.
    CREATE TABLE skill_examples (
        skill INTEGER PRIMARY KEY REFERENCES skills (number) ON DELETE CASCADE,
        examples BLOB NOT NULL
    );

    CREATE TABLE skill_uses (
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        version TEXT NOT NULL,
        execution_id TEXT NOT NULL,
        principal TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        calls INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        seconds DOUBLE PRECISION NOT NULL,
        error TEXT,
        translated INTEGER NOT NULL,
        PRIMARY KEY (namespace, name, version, execution_id)
    );
    CREATE INDEX skill_uses_by_time ON skill_uses (at);

    CREATE TABLE skill_migrations (
        number INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        from_version TEXT NOT NULL,
        to_version TEXT,
        tool TEXT NOT NULL,
        tool_from TEXT NOT NULL,
        tool_to TEXT NOT NULL,
        predicted TEXT NOT NULL,
        outcome TEXT NOT NULL,
        reason TEXT NOT NULL,
        seconds DOUBLE PRECISION NOT NULL,
        at DOUBLE PRECISION NOT NULL
    );

    -- Answers that are too large for `calls`, compressed, within the budget of days and bytes.
    CREATE TABLE trace_answers (
        execution_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        answer BLOB NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (execution_id, number)
    );
    CREATE INDEX trace_answers_by_time ON trace_answers (at);

    ALTER TABLE calls ADD COLUMN version TEXT NOT NULL DEFAULT '';

    -- Every definition of a tool in order, each with its changes; the last row of a tool marks one that is gone.
    -- `source` is a digest of the connection to the upstream.
    CREATE TABLE tool_releases (
        upstream TEXT NOT NULL,
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        full_name TEXT NOT NULL,
        major INTEGER NOT NULL,
        minor INTEGER NOT NULL,
        patch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        digest TEXT NOT NULL,
        spec TEXT NOT NULL,
        comparison TEXT NOT NULL,
        declared TEXT,
        source TEXT NOT NULL,
        renamed_to TEXT,
        renamed_from TEXT,
        released_at DOUBLE PRECISION NOT NULL,
        size_bytes INTEGER NOT NULL,
        PRIMARY KEY (upstream, name, number)
    );
    CREATE INDEX tool_releases_by_full_name ON tool_releases (full_name, released_at);
    CREATE INDEX tool_releases_by_time ON tool_releases (released_at);
    CREATE INDEX tool_releases_by_upstream ON tool_releases (upstream, size_bytes);

    -- The observed answers of a major version of a tool: their schema, and the counts that reveal a change.
    CREATE TABLE tool_shapes (
        upstream TEXT NOT NULL,
        name TEXT NOT NULL,
        major INTEGER NOT NULL,
        schema TEXT NOT NULL,
        state TEXT NOT NULL,
        answers INTEGER NOT NULL,
        seen_at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (upstream, name, major)
    );
    CREATE INDEX tool_shapes_by_time ON tool_shapes (upstream, seen_at);

-- schema 5
    -- The source of metrics: one row for each event, in the order of writing.
    CREATE TABLE facts (
        number INTEGER PRIMARY KEY,
        at DOUBLE PRECISION NOT NULL,
        kind TEXT NOT NULL,
        principal TEXT NOT NULL,
        execution_id TEXT NOT NULL,
        fact TEXT NOT NULL
    );
    CREATE INDEX facts_by_time ON facts (at, kind);
    CREATE INDEX facts_by_execution ON facts (execution_id, kind) WHERE execution_id <> '';

    -- The same added up: for all time ('total', 0), for each day and for each hour (UTC, seconds since the epoch).
    -- Whole numbers only, so that adding in another order gives the same. `buckets` are the counts of a histogram.
    CREATE TABLE metric_sums (
        span TEXT NOT NULL,
        start BIGINT NOT NULL,
        name TEXT NOT NULL,
        labels TEXT NOT NULL,
        count BIGINT NOT NULL,
        total BIGINT NOT NULL,
        buckets TEXT NOT NULL,
        PRIMARY KEY (span, start, name, labels)
    );

    -- The last rows of `facts` and `calls` that are in the sums.
    CREATE TABLE metric_marks (
        stream TEXT PRIMARY KEY,
        number BIGINT NOT NULL
    );

    ALTER TABLE calls ADD COLUMN upstream TEXT NOT NULL DEFAULT '';
    CREATE INDEX calls_by_time ON calls (started_at);
    CREATE INDEX executions_by_code ON executions (code_sha256);

    CREATE TABLE alerts (
        rule TEXT NOT NULL,
        subject TEXT NOT NULL,
        state TEXT NOT NULL,
        value DOUBLE PRECISION,
        threshold DOUBLE PRECISION,
        message TEXT NOT NULL,
        since DOUBLE PRECISION NOT NULL,
        changed_at DOUBLE PRECISION NOT NULL,
        seen_by TEXT NOT NULL,
        delivery TEXT NOT NULL,
        PRIMARY KEY (rule, subject)
    );

    CREATE TABLE alert_silences (
        rule TEXT PRIMARY KEY,
        until DOUBLE PRECISION NOT NULL,
        principal TEXT NOT NULL,
        reason TEXT NOT NULL
    );

    -- A repeated request with the same key gets the execution of the first request.
    CREATE TABLE idempotency_keys (
        principal TEXT NOT NULL,
        key TEXT NOT NULL,
        request_sha256 TEXT NOT NULL,
        execution_id TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (principal, key)
    );
    CREATE INDEX idempotency_keys_by_time ON idempotency_keys (at);

-- schema 6
    -- The models learned from the journal up to a fact, encoded: they can be rebuilt at any time.
    CREATE TABLE learning_models (
        form TEXT PRIMARY KEY,
        number BIGINT NOT NULL,
        forgotten BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        model BLOB NOT NULL
    );

    -- Subjects excluded from learning: facts up to a number.
    CREATE TABLE learning_forgotten (
        number INTEGER PRIMARY KEY,
        what TEXT NOT NULL,
        subject TEXT NOT NULL,
        fact BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL
    );

    CREATE INDEX skill_uses_by_execution ON skill_uses (execution_id);

    -- Sums of uses of skills whose rows in `skill_uses` are gone, by principal.
    CREATE TABLE skill_use_sums (
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        version TEXT NOT NULL,
        principal TEXT NOT NULL,
        uses BIGINT NOT NULL,
        calls BIGINT NOT NULL,
        failures BIGINT NOT NULL,
        seconds DOUBLE PRECISION NOT NULL,
        translated BIGINT NOT NULL,
        last_at DOUBLE PRECISION NOT NULL,
        error TEXT,
        PRIMARY KEY (namespace, name, version, principal)
    );

    -- The kind of change that a skill was migrated for; empty for older migrations without a record of it.
    ALTER TABLE skill_migrations ADD COLUMN change TEXT NOT NULL DEFAULT '';

-- schema 7
    -- The structure of an answer that is too large to keep, with a few of its rows, as JSON.
    ALTER TABLE calls ADD COLUMN answer_sample TEXT;

-- schema 9
    -- An ask whose arguments are cut in `ask`, with all of them, so that its approver can read everything it sends.
    ALTER TABLE approvals ADD COLUMN whole TEXT;
    ALTER TABLE approvals_remembered ADD COLUMN whole TEXT;

-- schema 10
    -- Alerts are a copy of what the gateway that checks them has in memory, so nothing is lost with the old table.
    DROP TABLE alert_silences;
    DROP TABLE alerts;
    CREATE TABLE alerts (
        rule TEXT NOT NULL,
        subject TEXT NOT NULL,
        state TEXT NOT NULL,
        value DOUBLE PRECISION,
        threshold DOUBLE PRECISION,
        message TEXT NOT NULL,
        since DOUBLE PRECISION NOT NULL,
        changed_at DOUBLE PRECISION NOT NULL,
        delivered INTEGER NOT NULL,
        PRIMARY KEY (rule, subject)
    );
    -- The request behind an execution; empty for older ones.
    ALTER TABLE executions ADD COLUMN form TEXT NOT NULL DEFAULT '';

    -- `skill_use_sums` holds every use from now on, not only those whose rows are gone.
    INSERT INTO skill_use_sums (namespace, name, version, principal, uses, calls, failures, seconds, translated,
        last_at, error)
    SELECT namespace, name, version, principal, count(*), sum(calls), sum(failures), sum(seconds), sum(translated),
        max(at), max(error) FROM skill_uses WHERE true GROUP BY namespace, name, version, principal
    ON CONFLICT (namespace, name, version, principal) DO UPDATE SET uses = uses + excluded.uses,
        calls = calls + excluded.calls, failures = failures + excluded.failures, seconds = seconds + excluded.seconds,
        translated = translated + excluded.translated, last_at = max(last_at, excluded.last_at),
        error = coalesce(excluded.error, error);

-- schema 11
    -- Conversations with models.
    CREATE TABLE conversations (
        principal TEXT NOT NULL,
        name TEXT NOT NULL,
        started_at DOUBLE PRECISION NOT NULL,
        changed_at DOUBLE PRECISION NOT NULL,
        model TEXT NOT NULL,
        messages BIGINT NOT NULL,
        input_tokens BIGINT NOT NULL,
        cached_tokens BIGINT NOT NULL,
        output_tokens BIGINT NOT NULL,
        usd DOUBLE PRECISION,
        runs BIGINT NOT NULL,
        seconds DOUBLE PRECISION NOT NULL,
        left_out BIGINT NOT NULL,
        shortened BIGINT NOT NULL,
        PRIMARY KEY (principal, name)
    );
    CREATE INDEX conversations_by_change ON conversations (principal, changed_at);
    CREATE TABLE messages (
        principal TEXT NOT NULL,
        name TEXT NOT NULL,
        number BIGINT NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (principal, name, number)
    );
    CREATE TABLE chat_days (
        principal TEXT NOT NULL,
        day BIGINT NOT NULL,
        input_tokens BIGINT NOT NULL,
        output_tokens BIGINT NOT NULL,
        usd DOUBLE PRECISION NOT NULL,
        runs BIGINT NOT NULL,
        PRIMARY KEY (principal, day)
    );
