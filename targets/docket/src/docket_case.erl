%% What a case looks like from outside: its id, its document, its version as an etag.
%%
%% Pure.
-module(docket_case).

-export([is_id/1, party/1, etag/1, version/1, escape/1]).
-export_type([id/0, party/0, version/0, document/0]).

-type id() :: binary().
-type party() :: binary().
-type version() :: pos_integer().
-type document() :: binary().

-define(LONGEST_ID, 200).

%% @doc Whether this can be the id of a case.
-spec is_id(binary()) -> boolean().
is_id(Id) when byte_size(Id) >= 1, byte_size(Id) =< ?LONGEST_ID ->
    lists:all(fun(C) ->
        (C >= $a andalso C =< $z) orelse (C >= $A andalso C =< $Z) orelse (C >= $0 andalso C =< $9)
            orelse C =:= $. orelse C =:= $_ orelse C =:= $-
    end, binary_to_list(Id));
is_id(_) ->
    false.

%% @doc The party of a document, or why it is none.
-spec party(binary()) -> {ok, party()} | {error, string()}.
party(Document) ->
    %% The parser looks into strings only for what ends them.
    case unicode:characters_to_binary(Document) of
        Document ->
            try mochijson2:decode(Document) of
                {struct, Members} -> party_of(lists:keyfind(<<"party">>, 1, Members));
                _ -> {error, "the document is not a JSON object"}
            catch
                _:_ -> {error, "the document is not JSON"}
            end;
        _ ->
            {error, "the document is not UTF-8"}
    end.

-spec party_of({binary(), term()} | false) -> {ok, party()} | {error, string()}.
party_of({_, Party}) when is_binary(Party) -> {ok, Party};
party_of({_, _}) -> {error, "the document's \"party\" is not a text"};
party_of(false) -> {error, "the document has no \"party\""}.

%% @doc A version as an etag.
-spec etag(version()) -> string().
etag(Version) -> [$"] ++ integer_to_list(Version) ++ [$"].

%% @doc The version that an etag, or a list of one, says.
-spec version(string()) -> {ok, version()} | error.
version(Text) ->
    case string:trim(Text) of
        [$" | Rest] ->
            try string:to_integer(Rest) of
                {Version, "\""} when Version > 0 -> {ok, Version};
                _ -> error
            catch
                _:_ -> error
            end;
        _ ->
            error
    end.

%% @doc UTF-8 as it stands between the quotes of a JSON string.
-spec escape(binary()) -> iodata().
escape(Text) -> escape(Text, Text, 0, 0).

%% What needs no escape is not copied: an audit is all cases.
-spec escape(binary(), binary(), non_neg_integer(), non_neg_integer()) -> iodata().
escape(All, <<C, Rest/binary>>, Start, Length) when C >= 32, C =/= $", C =/= $\\ ->
    escape(All, Rest, Start, Length + 1);
escape(All, <<C, Rest/binary>>, Start, Length) ->
    [binary_part(All, Start, Length), escaped(C) | escape(All, Rest, Start + Length + 1, 0)];
escape(All, <<>>, Start, Length) ->
    [binary_part(All, Start, Length)].

-spec escaped(byte()) -> binary().
escaped($") -> <<"\\\"">>;
escaped($\\) -> <<"\\\\">>;
escaped($\n) -> <<"\\n">>;
escaped($\r) -> <<"\\r">>;
escaped($\t) -> <<"\\t">>;
escaped(C) -> iolist_to_binary(io_lib:format("\\u~4.16.0b", [C])).
