%% The computation that each request to /cases costs besides its part in the register, as `work_ms' sets it.
%%
%% A fixed number of rounds, and not a time: a slow core takes longer.
-module(docket_work).

-export([rounds/1, compute/1]).

%% Rounds in a millisecond of a current core: the fastest tenth of 300 measurements with OTP 25.2 and its JIT on the machine that
%% bench/RESULTS.md describes. A constant, because a member that measured it at its start would measure its CPU quota.
-define(ROUNDS_PER_MS, 580000).

%% @doc Returns the number of rounds that take `Ms' milliseconds of a current core.
-spec rounds(number()) -> non_neg_integer().
rounds(Ms) -> round(Ms * ?ROUNDS_PER_MS).

%% @doc Computes in the calling process, which can be pre-empted and killed meanwhile: each round is a reduction.
-spec compute(non_neg_integer()) -> ok.
compute(Rounds) ->
    _ = spin(Rounds, 1),
    ok.

%% A linear congruential generator whose numbers stay small integers: no round can be left out, and nothing is allocated.
-spec spin(non_neg_integer(), non_neg_integer()) -> non_neg_integer().
spin(0, Number) -> Number;
spin(Left, Number) -> spin(Left - 1, (Number * 48271 + 11) band 16#7fffffff).
