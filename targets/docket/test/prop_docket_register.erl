%% One member of each mode against a model: whatever is done in whatever order, its answers are those of a map.
-module(prop_docket_register).
-include_lib("proper/include/proper.hrl").
-export([properties_test_/0, prop_like_a_map/0, prop_byte_for_byte/0]).

-define(IDS, [<<"a">>, <<"a.b">>, <<"B-1">>, <<"z_9">>]).
-define(PARTIES, [<<"P">>, <<"Ö & Co/?"/utf8>>]).
-define(MODES, [transaction, sync_transaction, async_dirty, sync_dirty]).

%% For EUnit.
properties_test_() ->
    [{Name, {timeout, 120, fun() ->
        case proper:quickcheck(Property, [quiet, {numtests, 60}]) of
            true -> ok;
            Failed -> error({Failed, proper:counterexample()})
        end
     end}} || {Name, Property} <- [{"like a map", prop_like_a_map()}, {"byte for byte", prop_byte_for_byte()}]].

%% A property is run on members of its own: one for each mode, half of them with copies on disk.
with_members(Property) ->
    ?SETUP(fun() ->
        Members = [{Mode, hd(docket_probe:cluster(1, ["--write", atom_to_list(Mode), "--read", atom_to_list(Mode),
                                                      "--copies", case Mode of transaction -> "disc"; _ -> "ram" end]))}
                   || Mode <- ?MODES],
        Started = [{Mode, docket_probe:again(Member)} || {Mode, Member} <- Members],
        [docket_probe:ready(Member) || {_, Member} <- Started],
        persistent_term:put(?MODULE, maps:from_list(Started)),
        fun() -> docket_probe:stop([Member || {_, Member} <- Started]) end
    end, Property).

member(Mode) -> maps:get(Mode, persistent_term:get(?MODULE)).

prop_like_a_map() ->
    with_members(?FORALL({Mode, Operations}, {oneof(?MODES), list(operation())}, begin
        Member = member(Mode),
        [docket_probe:ask(Member, "DELETE", path(Id), []) || Id <- ?IDS],
        holds(fun() ->
            Left = lists:foldl(fun(Operation, Model) -> check(Member, Operation, Model) end, #{}, Operations),
            docket_probe:ids(Member) =:= lists:sort(maps:keys(Left))
        end)
    end)).

%% An answer that fits nothing. PropEr 1.2 looks for the stack trace of an exception where OTP 25 has none any more.
holds(Fun) ->
    try
        Fun()
    catch
        error:Reason:Stack ->
            io:format("  ~p at ~p~n", [Reason, hd(Stack)]),
            false
    end.

operation() ->
    oneof([{create, oneof(?IDS), oneof(?PARTIES)},
           {read, oneof(?IDS)},
           {modify, oneof(?IDS), oneof([seen, other]), oneof(?PARTIES)},
           {delete, oneof(?IDS), oneof([seen, other, any])},
           {party, oneof(?PARTIES)},
           {page, oneof([none, <<"B">> | ?IDS]), range(1, 5)}]).

check(Member, {create, Id, Party}, Model) ->
    Document = document(Party, 1),
    case {docket_probe:ask(Member, "POST", path(Id), [], Document), Model} of
        {{409, _, _}, #{Id := _}} -> Model;
        {{201, #{<<"etag">> := <<"\"1\"">>}, _}, _} when not is_map_key(Id, Model) -> Model#{Id => {1, Party, Document}}
    end;
check(Member, {read, Id}, Model) ->
    case {docket_probe:get(Member, path(Id)), Model} of
        {{200, #{<<"etag">> := Etag}, Document}, #{Id := {Version, _, Document}}} -> true = Etag =:= etag(Version);
        {{404, _, _}, _} -> false = is_map_key(Id, Model)
    end,
    Model;
check(Member, {modify, Id, Match, Party}, Model) ->
    {Known, _, _} = maps:get(Id, Model, {7, none, none}),
    Document = document(Party, Known + 1),
    Answer = docket_probe:ask(Member, "PUT", path(Id), [{"if-match", etag(Known + one(Match))}], Document),
    case {Answer, Match, is_map_key(Id, Model)} of
        {{404, _, _}, _, false} -> Model;
        {{412, _, _}, other, true} -> Model;
        {{200, #{<<"etag">> := Etag}, _}, seen, true} ->
            Etag = etag(Known + 1),
            Model#{Id := {Known + 1, Party, Document}}
    end;
check(Member, {delete, Id, Match}, Model) ->
    {Known, _, _} = maps:get(Id, Model, {7, none, none}),
    Headers = [{"if-match", etag(Known + one(Match))} || Match =/= any],
    {Status, _, _} = docket_probe:ask(Member, "DELETE", path(Id), Headers),
    case {Status, Match, is_map_key(Id, Model)} of
        {404, _, false} -> Model;
        {412, other, true} -> Model;
        {204, _, true} when Match =/= other -> maps:remove(Id, Model)
    end;
check(Member, {party, Party}, Model) ->
    {200, _, Body} = docket_probe:get(Member, "/cases?party=" ++ mochiweb_util:quote_plus(Party)),
    Body = array([Id || {Id, {_, P, _}} <- maps:to_list(Model), P =:= Party]),
    Model;
check(Member, {page, After, Limit}, Model) ->
    From = case After of none -> ""; _ -> "&after=" ++ binary_to_list(After) end,
    {200, _, Body} = docket_probe:get(Member, "/cases?limit=" ++ integer_to_list(Limit) ++ From),
    Body = array(lists:sublist([Id || Id <- lists:sort(maps:keys(Model)), After =:= none orelse Id > After], Limit)),
    Model.

one(other) -> 1;
one(_) -> 0.

path(Id) -> "/cases/" ++ binary_to_list(Id).
etag(Version) -> iolist_to_binary(docket_case:etag(Version)).
document(Party, N) -> iolist_to_binary(mochijson2:encode({struct, [{party, Party}, {n, N}]})).
array(Ids) -> iolist_to_binary(["[", lists:join(",", [[$", Id, $"] || Id <- lists:sort(Ids)]), "]"]).

%% Whatever a document says and however it is set, it comes back as it went in, from the audit, too.
prop_byte_for_byte() ->
    with_members(?FORALL({Mode, Text, Blanks, Raw}, {oneof(?MODES), list(integer(1, 16#D7FF)), list(oneof(" \t\r\n")), boolean()}, begin
        Member = member(Mode),
        Value = case Raw of
            true -> ["\"", docket_case:escape(unicode:characters_to_binary(Text)), "\""];
            false -> mochijson2:encode(unicode:characters_to_binary(Text))
        end,
        Document = iolist_to_binary([Blanks, "{", Blanks, "\"party\" :\"P\",", Blanks, "\"x\":", Value, "}", Blanks]),
        docket_probe:ask(Member, "DELETE", "/cases/doc", []),
        holds(fun() ->
            {201, _, _} = docket_probe:ask(Member, "POST", "/cases/doc", [], Document),
            {200, _, Back} = docket_probe:get(Member, "/cases/doc"),
            {200, _, Audit} = docket_probe:get(Member, "/audit"),
            {struct, [{<<"records">>, {struct, [{<<"doc">>, Record}]}}]} = mochijson2:decode(Audit),
            Back =:= Document andalso Record =:= {struct, [{<<"value">>, Document}, {<<"version">>, <<"1">>}]}
        end)
    end)).
